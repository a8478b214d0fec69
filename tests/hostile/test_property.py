"""No script that runs as root can be made to do something for the agent that the agent cannot do itself.

Hypothesis chooses traps: programs, files, links, pipes and names in every directory that the agent's account can write,
and lines of its log and of its container. Then root runs every script of the runtimes. After each script, a canary that
only root can write and all other files outside the agent's home must be unchanged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hostile import agents
from hostile.ground import ATTACKER, Machine, as_root, machine, own_text
from levels import by_level
from paddock.base.errors import PaddockError
from paddock.runtimes import machine as machine_scripts
from paddock.runtimes.contract import Runtime
from paddock.runtimes.engine.runtime import Engine
from paddock.runtimes.sent import script
from paddock.runtimes.systemd.runtime import Systemd

pytestmark = as_root

EXAMPLES: Final = by_level(2, 60)
TAKE: Final = '#!/bin/sh\ntouch /root/taken 2>/dev/null\nPATH=/usr/bin:/bin exec "${0##*/}" "$@"\n'
LINES: Final = tuple(
    f"error{separator}{record}"
    for separator in ("\u2028", "\v", "\x85", "\r", "\x1e", "\0", "\\0", "\\n", " ")
    for record in ("left=/srv/evil", "unit=ssh.service failed", "bundle=x", "$(touch /root/taken)", "end=ok")
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
)
TARGETS: Final = (
    *("/etc/canary", "/root", "/etc", "/", "/etc/paddock/home_bee/secrets.env", "/proc/1/root/etc/canary", "/dev/zero"),
    *("../.paddock/identity", "../.paddock", "..", "nowhere", "/srv/containers"),
)
FOLDERS: Final = ("", ".local/bin", ".local", ".hermes", "locked", "a/b")

SYSTEMCTL: Final = """
case "$1" in
    show) echo SubState=failed; echo NRestarts=3; echo MainPID=1 ;;
    is-active) echo failed ;;
esac
"""
DOCKER: Final = """
case "$1 $2" in
    "container inspect") case "$*" in *paddock.agent*) echo home_bee ;; *) echo schema=1 ;; esac ;;
    "diff "*) sed "s|^|A /var/lib/dpkg/info/|" /mnt/log ;;
    "exec "*) shift; while [ "${1#--}" != "$1" ]; do shift; done; shift; exec "$@" ;;
esac
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
        made.root("echo untouched >/etc/canary && chmod 600 /etc/canary && mkdir -p /srv/containers")
        (made.folder / "containers").write_text("schema=1\n")
        made.stub("journalctl", "cat /mnt/log")
        made.stub("systemctl", SYSTEMCTL)
        made.stub("docker", DOCKER)
        yield made


def bundle_of(runtime: Runtime) -> tuple[str, bytes]:
    bundle = runtime.bundle(agents.workload_with_files(runtime), None, mounted=False)
    return bundle.id, bundle.archive({}, {})


def scripts(systemd: Systemd, docker: Engine) -> Iterator[tuple[Sequence[str], bytes]]:
    """Yield the argv and stdin of every script that root runs on a machine."""
    bundle_id, archive = bundle_of(systemd)
    yield systemd.observe(["sudo", "no-such-package"]), b""
    yield systemd.inspect(), b""
    yield systemd.apply(bundle_id), archive
    yield systemd.enter(["true"]), b""
    yield systemd.enter(["/usr/bin/python3", "-c", "pass"]), b""
    yield systemd.record_verified(bundle_id), b""
    yield systemd.back(), b""
    looked = machine_scripts.observe_and_look(systemd.observe([]), systemd.paths, bundle_id, "print(input())")
    yield looked, b"{}"
    yield systemd.logs(10, follow=False), b""
    yield (
        script("code/version.sh", [systemd.paths.etc.removesuffix("/current"), systemd.paths.code, "hermes_agent"]),
        b"",
    )
    yield machine_scripts.report_inventory(), b""
    yield machine_scripts.claim_for_restore(systemd.agent, systemd.paths, mounted=False), b""
    yield machine_scripts.hold_lease(systemd.paths), b""
    for words in (("saved", "from=1", "to=2"), ("verified",), ("back", "why"), ("on",), ("ended",)):
        yield machine_scripts.record_upgrade(systemd.paths, *words), b""
    yield machine_scripts.close_account(systemd.paths), b""
    yield systemd.stop(), b""
    yield systemd.start(), b""
    yield script("agent/mounts.sh", ["54399", "54399", systemd.paths.home]), b""
    yield script("code/python.sh", ["3.11", "3.12", "3.13"]), b""
    yield script("state/claim.sh", ["/srv/states/before", "home_wasp", "x", "54399", "54399", ""]), b""
    yield systemd.rename("wasp", mounted=False), b""
    yield systemd.remove(), b""
    bundle_id, archive = bundle_of(docker)
    yield docker.observe([]), b""
    yield docker.container.create(bundle_id, replaces=True), archive
    yield docker.apply(bundle_id), archive
    yield docker.enter(["true"]), b""
    yield ["/bin/sh", f"{docker.paths.etc}/start"], b""
    yield docker.inspect(), b""
    yield docker.record_verified(bundle_id), b""
    yield docker.back(), b""
    yield docker.container.pull(), b""
    yield docker.remove(), b""
    yield systemd.observe([]), b""
    yield machine_scripts.report_agents("system", systemd.paths, systemd.agent), b""
    yield script("agent/strays.sh", ["mallory", "54399", "/opt/data", "--", ".hermes"]), b""
    yield script("state/forget.sh", ["/srv/states/before", "/srv/states/link", "home_wasp"]), b""
    yield script("state/forget.sh", [systemd.paths.state, systemd.paths.state_link, "home_bee"]), b""


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


def expect_untouched(world: Machine, argv: Sequence[str], known: str) -> None:
    ran = next((word for word in argv if word.startswith("#")), " ".join(argv))[:80]
    assert look(world) == known, f"something outside the agent's home changed: {ran}"
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
        mkdir -p /srv/states/before /data && chown "$1:$1" /srv/states/before /data""",
        str(ATTACKER),
    )
    agents.installed(world, systemd, agents.workload_with_files(systemd))
    (world.folder / "log").write_text("\n".join(log) + "\n", newline="")
    lay = ["/usr/bin/python3", "-c", LAY, systemd.paths.home, "/srv/states/before", "/data", "/tmp"]
    lay = lay if world.exists("/usr/bin/python3") else [sys.executable, *lay[1:]]
    asked = json.dumps([asdict(trap) for trap in (*ALWAYS, *laid)]).encode()
    assert world.run(lay, stdin=asked, uid=ATTACKER).ok
    known = look(world)
    for argv, stdin in scripts(systemd, docker):
        world.run(argv, stdin=stdin)  # may fail
        expect_untouched(world, argv, known)
        assert world.run(lay, stdin=asked, uid=ATTACKER).ok  # the agent lays its traps again


def test_every_script_that_runs_as_root_is_attacked() -> None:
    """A new script has to be added to ``scripts`` above, or to ``elsewhere`` with a reason."""
    systemd, docker = agents.systemd("bee"), agents.docker("bee")
    texts = [word for argv, _ in scripts(systemd, docker) for word in argv]
    texts += [
        file.content for file in docker.bundle(agents.workload_with_files(docker), None, mounted=False).files.values()
    ]
    attacked = "\n".join(texts)
    elsewhere = {
        "code/install.sh": "test_packages.py",
        "state/prove.sh": "test_packages.py",
        "code/try_code.sh": "it runs in a throwaway container",
        "code/template.sh": "test_packages.py",
        "leave.sh": "test_reports.py",
        "code/packages.sh": "its arguments come from paddock.yaml",
        "load.sh": "its input comes from paddock.yaml",
        "hostkey.sh": "it reads no file of the agent",
        "base.sh": "it runs before the agent has a container, and its arguments come from paddock.yaml",
        "relock.sh": "tests/runtimes/test_image_scripts.py",
        "start_image.sh": "test_enter.py",
        "trial.sh": "it runs in a throwaway container",
        "code/programs_present.sh": "its arguments are of the recipe",
        "survey.sh": "it runs before there is an agent; test_reports.py attacks what reads its report",
    }
    top = Path(str(resources.files("paddock")))
    missing = [
        str(path.relative_to(top))
        for path in sorted(top.rglob("*.sh"))
        if path.parent.name != "process"
        and path.name not in {each.rpartition("/")[2] for each in elsewhere}
        and own_text(path) not in attacked
    ]
    assert not missing


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
