"""What Paddock does as root on a machine and what changes something there, killed at any of its changing system calls.

The requests to the program on the machine and the scripts run on a copy-on-write view of this machine
(tests/hostile/ground.py), with stubs for systemd and the engines. One program on the machine makes all kills of a
request: it puts the files back, makes the request until a call, makes the same request again, and compares the files
with those of a request that was not killed. A kill before which no file has changed since the last one would leave the
same, and is not tried (tests/killed_script.py).
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import random
import signal
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

import killed_script
from hostile import agents
from hostile.ground import ATTACKER, Machine, own_text
from hostile.stubs import DOCKER, SYSTEMCTL
from paddock.base.secret import Secret
from paddock.channels.onboard import Request, sent
from paddock.kinds.workload import Workload
from paddock.onboard.code.install import InstallTree
from paddock.onboard.configure import Sent
from paddock.onboard.engine.create import LeaveEngine
from paddock.onboard.engine.images import NameImage
from paddock.onboard.state.claim import ClaimForRestore, ClaimState, DeleteState
from paddock.onboard.state.version import RecordUpgrade
from paddock.onboard.systemd.account import CloseAccount
from paddock.runtimes.contract import Runtime

Command = tuple[Sequence[str], bytes]  # argv and stdin

# Where these requests change something.
FOLDERS: Final = ("/etc/paddock", "/opt/paddock", "/var/lib/paddock", "/srv", "/etc/systemd/system", "/etc/ssh")
FILES: Final = ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow")
ACTIVE: Final = "/run/active-*"  # the units that run, for the stub of systemd
# Where else a request could leave something.
ASIDE: Final = ("/run", "/tmp")
# Their contents are random, if they are created again.
RANDOM: Final = ("generated.env", ".paddock/identity", "/etc/ssh/ssh_host", "shadow")
HOSTKEY: Final = resources.files("paddock.onboard.shell") / "hostkey.sh"

# Requests and scripts that change nothing, or whose kills are tested elsewhere.
ELSEWHERE: Final = {
    **dict.fromkeys(
        (
            "observe.Observe",
            "observe.ReportAgents",
            "systemd.look.Inspect",
            "facts.main.Look",
            "facts.main.ObserveAndLook",
            "code.install.ReportVersion",
            "code.packages.ReportInventory",
            "places.ReportMounts",
            "places.ReportStrays",
            "onboard/shell/survey.sh",
            "imports.look.DescribeInstall",
            "relay.Relay",
            "request.AskAgent",
            "standin.StandIn",
            "stream.database.CountMessages",
            "vacant.FindVacant",
        ),
        "it only reports",
    ),
    **dict.fromkeys(
        ("stream.restoration.Restore", "stream.restoration.ExpectNew", "stream.restoration.Receive"),
        "tests/onboard/test_restoration.py kills it before and after each call that changes something",
    ),
    **dict.fromkeys(
        ("stream.send.SendState", "imports.give.GiveInstall", "imports.retire.RetireInstall"),
        "the next one removes or continues what it leaves: tests/onboard/test_staging.py, tests/live/test_import.py",
    ),
    **dict.fromkeys(
        (
            "state.claim.HoldLease",
            "code.install.TryTree",
            "databases.CheckDatabases",
            "onboard/shell/enter.sh",
            "onboard/shell/enter_container.sh",
        ),
        "it changes no file but that of the lease, which is empty",
    ),
    **dict.fromkeys(
        (f"onboard/shell/{name}.sh" for name in ("attach", "start", "start_image", "halt", "relock")),
        "systemd runs it, and starts it again",
    ),
    "onboard/shell/packages.sh": "the package manager of the machine, which is asked again for what is missing",
    "code.packages.FinishTemplate": "it runs on a builder; the builder of an interrupted build is destroyed",
    "engine.images.UsableImage": "the engine makes the image; the next run removes the container"
    " (tests/live/test_engine_images.py)",
}

_EMPTY: Final = """
rm -rf /etc/paddock /opt/paddock /var/lib/paddock /srv/* /etc/systemd/system/paddock-* /run/active-*
mkdir -p /srv/containers /opt/paddock /var/lib/paddock
userdel mallory 2>/dev/null || true
"""
# Runs on the machine. Its input is JSON, and its output a JSON line about the script and one for each kill.
_LOOP: Final = (
    inspect.getsource(killed_script)
    + r"""
import glob, json, shutil, sys
order = json.load(sys.stdin)
# Processes without a parent become children of this one. A lock of usermod counts as long as its process is there.
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
before, killable, later = ([(argv, stdin.encode("latin-1")) for argv, stdin in order[key]] for key in
                           ("before", "killed", "later"))

def there():
    return [path for path in (*order["folders"], *order["files"], *glob.glob(order["active"])) if os.path.exists(path)]

def save():
    subprocess.run(["tar", "-cpf", "/run/saved.tar", *there()], check=True, stderr=subprocess.DEVNULL)

def put_back():
    for top in there():
        for path in [f"{top}/{name}" for name in os.listdir(top)] if os.path.isdir(top) else [top]:
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    subprocess.run(["tar", "-xpf", "/run/saved.tar", "-C", "/"], check=True)

def run(command):
    argv, stdin = command
    done = subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode(errors="replace")[-300:]

def kill_at(at):
    code, _ = watch(*killable[0], os.environ, lambda number: number == at)
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return code

def seen():
    found = files_below(there())
    return {path: "" if any(word in path for word in order["random"]) else text for path, text in found.items()}

def look():
    try:
        return files_below([*there(), *order["aside"]])
    except FileNotFoundError:  # another process of the request has just removed it
        return object()

for command in before:
    code, said = run(command)
    assert code == 0, (command[0][3:], said)
save()
known = seen()
if order["at"] is None:
    run(killable[0])  # what it leaves elsewhere is there before each of the kills, too
    put_back()
    print(json.dumps(calls(*killable[0], os.environ, look)))
    put_back()
    sys.exit()
codes = [run(command) for command in (*killable, *later)]
wanted = seen()
print(json.dumps(codes), flush=True)
for at in order["at"]:
    put_back()
    code = kill_at(at)
    left = seen()
    again = [run(command) for command in (*killable, *later)]
    now = seen()
    differ = [f"{path}: {wanted.get(path)} became {now.get(path)}" for path in sorted({*now, *wanted})
              if now.get(path) != wanted.get(path)]
    lost = [path for path in order["kept"] if left.get(path) != known[path]]
    print(json.dumps({"at": at, "code": code, "again": again, "differ": differ, "lost": lost}), flush=True)
"""
)


@dataclass(frozen=True)
class Case:
    """A request or a script that is killed, and what happens on the machine before and after it."""

    name: str
    killed: Command
    before: Sequence[Command] = ()
    later: Sequence[Command] = ()  # the next ones of the same step
    kept: Sequence[str] = ()  # files that no kill may change
    refusal: int = 0  # the exit code of the same request if the killed one had done everything


@dataclass(frozen=True)
class Kills:
    """The kills of one request."""

    name: str
    calls: int
    differing: int  # calls before which a kill leaves other files than the kill before it
    tried: int
    problems: Sequence[str]
    lost: Sequence[str]


def shell(text: str, *arguments: str) -> Command:
    return ["sh", "-euc", text, "test", *arguments], b""


def applied(runtime: Runtime, colour: str = "red") -> Command:
    """Return the request that applies a bundle."""
    return sent(runtime.apply(_bundle(runtime, colour)))


def _bundle(runtime: Runtime, colour: str, tree: str | None = None, workload: Workload | None = None) -> Sent:
    """Return a bundle that differs from those of other colours in a setting, a secret and a secret file."""
    secret = Secret(f"the key for {colour}")
    bundle = runtime.bundle(workload or _coloured(runtime, colour), tree, mounted=False)
    return bundle.sent({"KEY": secret}, {"token": secret})


def _coloured(runtime: Runtime, colour: str) -> Workload:
    wanted = agents.workload_with_files(runtime)
    first = wanted.processes[0]
    coloured = replace(first, environment={**first.environment, "COLOUR": colour})
    return replace(wanted, processes=(coloured, *wanted.processes[1:]))


def cases() -> Iterator[Case]:
    """Yield everything that changes something, in a situation where it has much to do."""
    bee, boxed = agents.systemd("bee"), agents.docker("bee")
    state, note = bee.paths.state, f"{bee.paths.home}/learned.md"
    learned = shell('echo tea >"$1" && chown "$2:$2" "$1"', note, str(ATTACKER))
    ready = [applied(bee), learned]
    folder = shell('mkdir -p "$1" && echo tea >"$1/learned.md" && chown -R "$2:$2" "$1"', state, str(ATTACKER))
    bundle = _bundle(boxed, "red")
    created = sent(boxed.container.create(bundle, replaces=False))
    renewed = sent(boxed.container.create(bundle, replaces=True))
    in_box = [created, applied(boxed), learned]
    boxed_verified = sent(boxed.record_verified(bundle.id))
    changed = [*ready, sent(bee.record_verified(_bundle(bee, "red").id)), applied(bee, "blue")]
    boxed_changed = [*in_box, boxed_verified, renewed, applied(boxed, "blue")]

    def case(name: str, request: Request, before: Sequence[Command] = (), *, kept: Sequence[str] = (note,)) -> Case:
        return Case(name, sent(request), before, kept=kept)

    yield Case("apply, a new agent", applied(bee))
    yield Case("apply, other settings", applied(bee, "blue"), ready, kept=[note])
    yield Case("apply, after it was verified", applied(bee, "blue"), changed[:-1], kept=[note])
    yield Case("apply, after a change that was not verified", applied(bee, "green"), changed, kept=[note])
    plain = bee.apply(_bundle(bee, "blue", workload=agents.workload(bee)))
    yield case("apply, without the files of the state", plain, ready)
    yield case("go back", bee.back(), changed)
    yield case("go back, before anything has changed", bee.back(), changed[:-1])
    yield case("stop", bee.stop(), ready)
    yield case("start", bee.start(), [*ready, sent(bee.stop())])
    yield case("record that it is verified", bee.record_verified("red"), ready)
    saved = RecordUpgrade(state, "saved", {"from": "1", "to": "2"})
    yield case("record an upgrade: saved", saved, ready)
    upgrades = [*ready, sent(saved)]
    goes_back = RecordUpgrade(state, "back", {"why": "it does not answer"})
    ran = [shell('echo "$2" >"$1/.paddock/version"', state, version) for version in ("1", "2")]
    yield case("record an upgrade: verified", RecordUpgrade(state, "verified"), [*upgrades, ran[1]])
    yield case("record an upgrade: back", goes_back, upgrades)
    yield case("record an upgrade: on", RecordUpgrade(state, "on"), [*upgrades, sent(goes_back)])
    yield case("record an upgrade: ended", RecordUpgrade(state, "ended"), [*upgrades, sent(goes_back), ran[0]])
    yield case("claim for a restore", ClaimForRestore(bee.deployed, mounted=False), kept=())
    claim = ClaimState(bee.deployed, mounted=False, user="mallory", uid=ATTACKER, gid=ATTACKER)
    yield case("claim existing files", claim, [folder], kept=())
    opened = shell("usermod --expiredate '' --shell /bin/bash mallory")
    yield case("close the account", CloseAccount(bee.deployed), [*ready, opened])
    yield case("remove", bee.remove(), ready)
    yield case("forget", DeleteState(bee.deployed), [*ready, sent(bee.remove())], kept=())
    yield Case("create a container", created, refusal=75)
    yield Case("recreate a container", renewed, in_box, kept=[note])
    yield Case("apply, in a container", applied(boxed, "blue"), in_box, kept=[note])
    yield Case("record that a container is verified", boxed_verified, in_box, kept=[note])
    yield case("go back, in a container", boxed.back(), boxed_changed)
    yield case("go back, to the container from before", boxed.back(), boxed_changed[:-1])
    yield Case("record that a changed container is verified", boxed_verified, boxed_changed, kept=[note])
    yield case("remove a container", boxed.remove(), in_box)
    yield case("leave an engine", LeaveEngine(boxed.deployed, "docker"), in_box)
    yield case("name an image", NameImage("docker", ("one:1", "two:1"), "three:1", ("two:1",)), in_box)
    yield case("pull an image", boxed.container.pull(), in_box)
    former, boxed_former = agents.systemd("wasp"), agents.docker("wasp")
    place = {"path": former.paths.state}
    renamed = replace(agents.systemd("bee", state=place), formers=(former.agent,))
    boxed_renamed = replace(agents.docker("bee", state=place), formers=(former.agent,))
    known = shell('echo tea >"$1"', f"{former.paths.home}/learned.md")
    boxed_created = sent(boxed_former.container.create(_bundle(boxed_former, "red"), replaces=False))
    kept = f"{former.paths.home}/learned.md"
    yield case("rename", renamed.rename("home_wasp", mounted=False), [applied(former), known], kept=[kept])
    in_former = [boxed_created, applied(boxed_former), known]
    yield case("rename, with a container", boxed_renamed.rename("home_wasp", mounted=False), in_former, kept=[kept])
    trees = {name: sent(_tree(name), _package()) for name in ("t1", "t2", "t3")}
    with_tree = {name: sent(bee.apply(_bundle(bee, name, name))) for name in trees}
    yield Case("install code", trees["t1"], ready, kept=[note])
    older = [trees["t1"], with_tree["t1"], learned, trees["t2"], with_tree["t2"], trees["t3"]]
    yield Case("apply, other code", with_tree["t3"], older, kept=[note])
    yield case("remove, with code", bee.remove(), older)
    text = HOSTKEY.read_text()
    stage, switch = (["sh", "-c", text, "paddock", verb] for verb in ("stage", "switch"))
    yield Case("stage a host key", (stage, b""), later=[(switch, b"")])
    # A run that was killed begins with a new key.
    yield Case("switch to a host key", (["sh", "-c", f"set -- stage\n{text}\nset -- switch\n{text}"], b""))


def _tree(name: str) -> InstallTree:
    return InstallTree("/opt/paddock/.store", name, "home_bee", "tiny", "/usr/bin/python3", ("-c", "import tiny"))


def _package() -> bytes:
    """Return the archive of a package with one program."""
    files = {
        "tiny.py": "def main(): return 0\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
    }
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content.encode()))
    return made.getvalue()


def sample(found: Sequence[Case], most: int, seed: int) -> list[Case]:
    """Return some of the cases, in their order."""
    chosen = set(random.Random(seed).sample(range(len(found)), most))
    return [case for at, case in enumerate(found) if at in chosen]


def on(world: Machine, case: Case, most: int | None, seed: int) -> Kills:
    """Kill a request before all calls at which that makes a difference, or before some that a seed chooses."""
    world.stub("systemctl", SYSTEMCTL)
    world.stub("docker", DOCKER)
    [(calls, differing)] = _lines(world, case, None)
    at = differing if most is None else sorted(random.Random(seed).sample(differing, min(most, len(differing))))
    codes, *kills = _lines(world, case, at)
    assert all(code == 0 for code, _ in codes), (case.name, codes)
    problems = [
        f"{case.name}, killed at call {kill['at']} of {calls}: {why}"
        for kill in kills
        for why in (
            *kill["differ"],
            *(said for code, said in kill["again"] if code not in (0, case.refusal)),
            *(["it was not killed"] if kill["code"] != -signal.SIGKILL else ()),
        )
    ]
    lost = [f"{case.name}, killed at call {kill['at']}: {path}" for kill in kills for path in kill["lost"]]
    return Kills(case.name, calls, len(differing), len(kills), problems, lost)


def _lines(world: Machine, case: Case, at: Sequence[int] | None) -> list[Any]:
    order: Mapping[str, Any] = {
        "before": _texts(case.before),
        "killed": _texts([case.killed]),
        "later": _texts(case.later),
        "at": at,
        "kept": list(case.kept),
        "folders": FOLDERS,
        "files": FILES,
        "active": ACTIVE,
        "aside": ASIDE,
        "random": RANDOM,
    }
    world.root(_EMPTY)
    done = world.run(["python3", "-c", _LOOP], stdin=json.dumps(order).encode(), seconds=600)
    assert done.ok, (case.name, done.err)
    return [json.loads(line) for line in done.out.splitlines()]


def _texts(commands: Sequence[Command]) -> list[tuple[list[str], str]]:
    return [(list(argv), stdin.decode("latin-1")) for argv, stdin in commands]


def not_covered() -> list[str]:
    """Return the requests and scripts that are neither killed here nor named in ``ELSEWHERE``."""
    killed = [each for case in cases() for each in [case.killed, *case.later]]
    made, texts = b"".join(stdin for _, stdin in killed), "\n".join(word for argv, _ in killed for word in argv)
    top = Path(str(resources.files("paddock")))
    there = {
        str(path.relative_to(top)): own_text(path) in texts
        for path in sorted(top.rglob("*.sh"))
        if not path.read_text().startswith("# Library:")
    }
    for path in sorted((top / "onboard").rglob("*.py")):
        module = ".".join(path.relative_to(top / "onboard").with_suffix("").parts)
        for name in _requests(path):
            words = f'"module": "paddock.onboard.{module}", "name": "{name}"'
            there[f"{module}.{name}"] = words.encode() in made
    return [
        *(name for name, is_killed in there.items() if not is_killed and name not in ELSEWHERE),
        *(f"{name} is gone, or is killed" for name in ELSEWHERE if there.get(name, True)),
    ]


def _requests(path: Path) -> Iterator[str]:
    """Yield the names of the classes of a module that can be sent."""
    for each in ast.parse(path.read_text()).body:
        if isinstance(each, ast.ClassDef):
            methods = {one.name for one in each.body if isinstance(one, ast.FunctionDef)}
            if "perform" in methods:
                yield each.name
