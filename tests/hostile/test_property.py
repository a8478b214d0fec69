"""Nothing that runs as root can be made to do something for the agent that the agent cannot do itself.

Hypothesis chooses traps: programs, files, links, pipes and names in every directory that the agent's account can write,
and lines of its log and of its container. Then root makes every request to the program on the machine, and runs every
script. After each of them, a canary that only root can write and all other files outside the agent's home must be
unchanged.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Final, cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hostile import agents
from hostile.ground import ATTACKER, Machine, as_root, machine, own_text
from hostile.stubs import DOCKER, ENGINE_STUB, FAILED_UNITS
from levels import by_level
from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.channels.onboard import Request, sent
from paddock.channels.sent import script
from paddock.kinds.workload import Probes
from paddock.onboard.code.install import ReportVersion
from paddock.onboard.code.packages import ReportInventory
from paddock.onboard.configure import Sent
from paddock.onboard.databases import CheckDatabases
from paddock.onboard.engine.create import LeaveEngine
from paddock.onboard.facts.main import Look, ObserveAndLook
from paddock.onboard.observe import ReportAgents
from paddock.onboard.places import ReportMounts, ReportStrays
from paddock.onboard.program.serve import UNEXPECTED
from paddock.onboard.state.claim import ClaimForRestore, ClaimState, DeleteState, HoldLease
from paddock.onboard.state.version import RecordUpgrade
from paddock.onboard.stream.database import CountMessages
from paddock.onboard.stream.restoration import ExpectNew, Restore
from paddock.onboard.stream.send import SendState
from paddock.onboard.systemd.account import CloseAccount
from paddock.onboard.vacant import FindVacant
from paddock.runtimes.contract import Runtime
from paddock.runtimes.engine.runtime import Engine
from paddock.runtimes.systemd.runtime import Systemd
from paddock.verify.line import Subject
from paddock.verify.look import RuntimeArgvs, of_every_agent, question

pytestmark = as_root

EXAMPLES: Final = by_level(2, 60)
CANARY: Final = "only-root-may-read-this"
TAKE: Final = '#!/bin/sh\ntouch /root/taken 2>/dev/null\nPATH=/usr/bin:/bin exec "${0##*/}" "$@"\n'
# An answer of the program on the machine; its own ones begin with a NUL byte.
FORGED: Final = '\0{"code": 0, "value": {"bundle_id": "x", "left": {"/srv/evil": []}}}\n'
LINES: Final = tuple(
    f"error{separator}{record}"
    for separator in ("\u2028", "\v", "\x85", "\r", "\x1e", "\0", "\\0", "\\n", " ")
    for record in ("left=/srv/evil", "unit=ssh.service failed", "bundle=x", "$(touch /root/taken)", FORGED)
)
NAMES: Final = (
    *("setpriv", "env", "sh", "cat", "grep", "mv", "chown", "python3", "systemctl", "docker", "find", "stat", "id"),
    *(
        "-rf",
        "--reference=canary",
        "a b",
        "a\nb",
        "*",
        "$(touch taken)",
        "`touch taken`",
        ";touch taken",
        "%s%n",
        "...",
    ),
    *(".paddock", ".paddock.new", "identity", "lease", "adopting", "locked", "home", ".local", ".hermes", "notes.md"),
    *("sitecustomize.py", "usercustomize.py", "x\u2028left=docker", ".paddock-forgotten-home_bee", "lost+found", "run"),
    *("json.py", "pwd.py", "ctypes.py", "traceback.py", "paddock", "SOUL.md.paddock-a1b2c3", ".env", "SOUL.md.found-1"),
    *("state.db", "state.db-wal"),
)
TARGETS: Final = (
    *("/etc/canary", "/root", "/etc", "/", "/etc/paddock/home_bee/secrets.env", "/proc/1/root/etc/canary", "/dev/zero"),
    *("../.paddock/identity", "../.paddock", "..", "nowhere", "/srv/containers"),
)
FOLDERS: Final = ("", ".local/bin", ".local", ".hermes", "locked", "a/b")

# The engine lists files of a container, whose names the agent chooses.
ENGINE: Final = f"""
case "$1" in diff) sed "s|.*|A /var/lib/dpkg/info/&.list|" /mnt/log ;; esac
case "$1" in exec) {ENGINE_STUB} ;; esac
{DOCKER}
"""

LAY: Final = r"""
import json, os, sys
for top, trap in ((top, trap) for trap in json.load(sys.stdin) for top in sys.argv[1:]):
    folder = os.path.join(top, trap["folder"])
    path = os.path.join(folder, trap["name"])
    try:
        os.makedirs(folder, exist_ok=True)
        if os.path.lexists(path):
            os.rename(path, path + ".before")
        match trap["kind"]:
            case "link": os.symlink(trap["target"], path)
            case "hard link": os.link(trap["target"], path)
            case "pipe": os.mkfifo(path)
            case "folder": os.mkdir(path, 0o777)
            case "program":
                with open(path, "w") as file: file.write(trap["text"])
                os.chmod(path, 0o6755)
            case "file":
                with open(path, "w") as file: file.write(trap["text"])
    except OSError:
        pass  # the account has no permission
"""


@dataclass(frozen=True)
class Trap:
    kind: str
    folder: str
    name: str
    target: str
    text: str


# Traps that are part of every example: the most likely attacks.
ALWAYS: Final = (
    *(Trap("program", ".local/bin", name, "", TAKE) for name in NAMES[:13]),
    Trap("folder", "", ".paddock", "", ""),
    Trap("link", ".paddock", "adopting", "/etc", ""),
)
traps = st.builds(
    Trap,
    kind=st.sampled_from(["program", "program", "link", "link", "hard link", "pipe", "folder", "file"]),
    folder=st.sampled_from(FOLDERS),
    name=st.sampled_from(NAMES),
    target=st.sampled_from(TARGETS),
    text=st.one_of(st.just(TAKE), st.sampled_from(LINES)),
)


@pytest.fixture(scope="module")
def world() -> Iterator[Machine]:
    with machine() as made:
        made.root(f"echo {CANARY} >/etc/canary && chmod 600 /etc/canary && mkdir -p /srv/containers")
        made.stub("journalctl", "cat /mnt/log")
        made.stub("systemctl", FAILED_UNITS)
        made.stub("docker", ENGINE)
        yield made


def bundle_of(runtime: Runtime) -> Sent:
    return runtime.bundle(agents.workload_with_files(runtime), None, mounted=False).sent({}, {})


def look_of(runtime: Systemd) -> Look:
    """Return the request for all facts that `verify` judges."""
    checks = list(of_every_agent("bee", runtime.paths, Probes(None, None)))
    facts = Subject("bee", runtime.paths, ("main",), "", {"x": ""}, None, checks, frozenset(), False, False, "mallory")
    beside = runtime.enter(["/usr/bin/python3", "-I", "-S", "-c"])
    return question(facts, RuntimeArgvs(runtime.inspect(), beside, runtime.logs(10, follow=False)), quick=False)


def steps(systemd: Systemd, docker: Engine) -> Iterator[Request | Sequence[str]]:
    """Yield every request to the program on a machine, and the argv of every script that root runs there."""
    bundle, agent = bundle_of(systemd), systemd.deployed
    yield systemd.observe(["sudo", "no-such-package"])
    yield systemd.inspect()
    yield systemd.apply(bundle)
    yield systemd.enter(["true"])
    yield systemd.enter(["/usr/bin/python3", "-c", "pass"])
    yield systemd.record_verified(bundle.id)
    yield systemd.back("hermes_agent")
    yield ObserveAndLook(systemd.observe([]), bundle.id, look_of(systemd))
    yield systemd.logs(10, follow=False)
    yield ReportVersion(agent, "hermes_agent")
    yield ReportInventory()
    yield ClaimForRestore(agent, False)
    yield HoldLease(agent.state)
    order: dict[str, object] = {"home": systemd.paths.home, "staging": agent.state, "about": {}, "rebuilt": []}
    yield SendState({**order, "databases": ["**/*.db"], "growing": [], "examine": True})
    yield CountMessages(f"{systemd.paths.home}/state.db", "SELECT count(*) + ? FROM x", 0, "mallory")
    yield CheckDatabases(systemd.paths.home, ["**/*.db"], [], "mallory")
    yield ExpectNew(agent.state, 0)
    for part in ("settle", "whole"):
        yield Restore(agent.state, part)
    yield FindVacant("mallory", 2)
    saved = {"from": "1", "to": "2", "backup": "x", "where": "x", "at": "1", "why": "x"}
    for what in ("saved", "verified", "back", "on", "ended"):
        yield RecordUpgrade(agent.state, what, saved)
        yield systemd.observe([])
    yield CloseAccount(agent)
    yield systemd.stop()
    yield systemd.start()
    yield ReportMounts(ATTACKER, ATTACKER, (systemd.paths.home,))
    yield script("packages.sh", ["python", "3.11", "3.12", "3.13"])
    before = agents.systemd("wasp", state={"path": "/srv/states/before"}).deployed
    yield ClaimState(before, False, "x", ATTACKER, ATTACKER)
    yield systemd.rename("wasp", mounted=False)
    yield systemd.remove()
    bundle = bundle_of(docker)
    yield docker.observe([])
    yield docker.container.create(bundle, replaces=True)
    yield docker.apply(bundle)
    yield docker.observe([])
    yield docker.enter(["true"])
    yield ["/bin/sh", f"{docker.paths.etc}/start"]
    yield docker.inspect()
    yield docker.record_verified(bundle.id)
    yield docker.container.create(bundle, replaces=True)
    yield docker.back()
    yield docker.container.pull()
    yield docker.remove()
    yield LeaveEngine(agent, "podman")
    yield systemd.observe([])
    yield ReportAgents(agent)
    yield ReportStrays("mallory", ATTACKER, ("/opt/data",), (".hermes",))
    yield DeleteState(before)
    yield DeleteState(agent)


LOOK: Final = """
cat /etc/canary
cd / && stat -c '%n %u %a' etc/canary etc root srv var/lib usr/local/bin
ls -A /root /srv /usr/local/bin
mkdir -p /opt/paddock
find /etc /root /opt/paddock /usr/local/bin -maxdepth 2 -uid "$1"
find /srv /var/lib/paddock -xdev -user root -perm /6000
"""


def look(world: Machine) -> str:
    """List the files of root that no script may change, and files there that the agent owns."""
    return world.root(LOOK, str(ATTACKER))


def perform(world: Machine, step: Request | Sequence[str]) -> Result:
    """Carry out a step, which may fail."""
    argv, stdin = (step, b"") if isinstance(step, list) else sent(cast("Request", step))
    return world.run(argv, stdin=stdin)


def expect_untouched(world: Machine, step: object, known: str) -> None:
    assert look(world) == known, f"something outside the agent's home changed: {step!r:.200}"
    called = [call for call in world.calls if "evil" in call or "ssh.service" in call]
    assert not called, called


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking an example would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(laid=st.lists(traps, min_size=5, max_size=30), log=st.lists(st.sampled_from(LINES), max_size=4))
def test_no_script_of_root_follows_a_trap_of_the_agent(world: Machine, laid: list[Trap], log: list[str]) -> None:
    systemd, docker = agents.systemd("bee"), agents.docker("bee")
    world.root(
        """rm -rf /srv/states/before /var/lib/paddock /etc/paddock /data /etc/systemd/system/paddock-* /home/mallory
        rm -rf /srv/containers/* && mkdir -p /srv/states/before /data && chown "$1:$1" /srv/states/before /data""",
        str(ATTACKER),
    )
    agents.installed(world, systemd, agents.workload_with_files(systemd))
    (world.folder / "log").write_text("\n".join(log) + "\n", newline="")
    lay = ["/usr/bin/python3", "-c", LAY, systemd.paths.home, "/srv/states/before", "/data", "/tmp"]
    lay = lay if world.exists("/usr/bin/python3") else [sys.executable, *lay[1:]]
    asked = json.dumps([asdict(trap) for trap in (*ALWAYS, *laid)]).encode()
    assert world.run(lay, stdin=asked, uid=ATTACKER).ok
    known = look(world)
    for step in steps(systemd, docker):
        done = perform(world, step)
        assert done.code != UNEXPECTED, f"an entry of the agent is not expected: {step!r:.200}: {done.err}"
        assert CANARY not in done.out, f"a file of root's was read: {step!r:.200}"
        expect_untouched(world, step, known)
        assert world.run(lay, stdin=asked, uid=ATTACKER).ok  # the agent lays its traps again


def test_every_script_that_runs_as_root_is_attacked() -> None:
    """A new script has to be added to ``steps`` above, or to ``elsewhere`` with a reason."""
    systemd, docker = agents.systemd("bee"), agents.docker("bee")
    texts = [word for step in steps(systemd, docker) if isinstance(step, list) for word in step]
    texts += [
        file.content for file in docker.bundle(agents.workload_with_files(docker), None, mounted=False).files.values()
    ]
    attacked = "\n".join(texts)
    elsewhere = {
        "enter.sh": "it runs as the account that the agent runs as",
        "hostkey.sh": "it reads no file of the agent",
        "relock.sh": "tests/runtimes/test_image_scripts.py",
        "start_image.sh": "test_enter.py",
        "survey.sh": "it runs before there is an agent; test_reports.py attacks what reads its report",
    }
    top = Path(str(resources.files("paddock")))
    missing = [
        str(path.relative_to(top))
        for path in sorted(top.rglob("*.sh"))
        if path.name not in elsewhere and own_text(path) not in attacked
    ]
    assert not missing


def test_every_request_that_root_makes_is_attacked() -> None:
    """A new request has to be added to ``steps`` above, or to ``elsewhere`` with a reason."""
    elsewhere = {
        "Look": "ObserveAndLook makes it",
        "AskAgent": "test_limits.py",
        "Relay": "test_chat.py",
        "Receive": "tests/onboard/test_hostile.py",
        "StandIn": "it reads no file, and is a model for the agent",
        **dict.fromkeys(("DescribeInstall", "GiveInstall", "RetireInstall"), "it runs before there is an agent"),
        "InstallTree": "test_packages.py",
        "TryTree": "it runs in a throwaway container",
        "FinishTemplate": "test_packages.py",
        "NameImage": "its input comes from paddock.yaml",
        "UsableImage": "it runs before the agent has a container, and its arguments come from paddock.yaml",
    }
    attacked = {type(step).__name__ for step in steps(agents.systemd("bee"), agents.docker("bee"))}
    requests = {
        each.name
        for path in Path(str(resources.files("paddock.onboard"))).rglob("*.py")
        for each in ast.parse(path.read_text()).body
        if isinstance(each, ast.ClassDef) and any(getattr(part, "name", "") == "perform" for part in each.body)
    }
    assert len(requests) > 25
    assert requests - attacked - elsewhere.keys() == set()
    assert elsewhere.keys() <= requests


def test_an_observation_of_an_attacked_machine_has_no_forged_records(world: Machine) -> None:
    systemd = agents.systemd("bee")
    agents.installed(world, systemd)
    together = by_level(9, 1)
    for start in range(0, len(LINES), together):
        (world.folder / "log").write_text("\n".join(LINES[start : start + together]) + "\n", newline="")
        try:
            seen = agents.seen(world, systemd)
        except PaddockError:
            continue
        assert set(seen.left) <= {"docker"}
        assert set(seen.units) <= {systemd.unit("lease"), systemd.unit("main")}
