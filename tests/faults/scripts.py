"""The scripts that Paddock runs as root on a machine and that change something, killed at any of their commands.

They run on a copy-on-write view of this machine (tests/hostile/ground.py), with stubs for systemd and the engines. One
program on the machine makes all kills of a script: it puts the files back, runs the script until a command, runs the
same script again, and compares the files with those of a script that was not killed. A kill before which no file has
changed since the last one would leave the same, and is not tried (tests/killed_script.py).
"""

from __future__ import annotations

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
from paddock.runtimes import machine as of_machine
from paddock.runtimes.contract import Runtime
from paddock.runtimes.sent import script

Command = tuple[Sequence[str], bytes]  # argv and stdin

# Where these scripts change something.
FOLDERS: Final = ("/etc/paddock", "/opt/paddock", "/var/lib/paddock", "/srv", "/etc/systemd/system", "/etc/ssh")
FILES: Final = ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow")
ACTIVE: Final = "/run/active-*"  # the units that run, for the stub of systemd
# Where else a script could leave something.
ASIDE: Final = ("/run", "/tmp")
# Their contents are random, if they are created again.
RANDOM: Final = ("generated.env", ".paddock/identity", "/etc/ssh/ssh_host", "shadow")
HOSTKEY: Final = resources.files("paddock.places.proxmox.machine") / "hostkey.sh"

# Scripts that change nothing, or whose kills are tested elsewhere.
ELSEWHERE: Final = {
    **dict.fromkeys(
        (
            "agent/agents.sh",
            "inspect.sh",
            "code/inventory.sh",
            "observe.sh",
            "agent/observe_and_look.sh",
            "agent/mounts.sh",
            "agent/strays.sh",
            "code/version.sh",
            "code/programs_present.sh",
            "survey.sh",
        ),
        "it only reports",
    ),
    **dict.fromkeys(
        ("agent/enter.sh", "enter_container.sh", "state/hold.sh", "code/try_code.sh", "trial.sh"), "it changes no file"
    ),
    **dict.fromkeys(
        ("lease.sh", "attach.sh", "start.sh", "start_image.sh", "halt.sh", "relock.sh"),
        "systemd runs it, and starts it again",
    ),
    "rename.sh": "tests/hostile/test_rename.py",
    "code/packages.sh": "the package manager of the machine, which is asked again for what is missing",
    "code/python.sh": "the package manager of the machine",
    "code/template.sh": "it runs on a builder; the builder of an interrupted build is destroyed",
    "base.sh": "the engine makes the image; the next run removes the container (tests/live/test_engine_images.py)",
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
    done = subprocess.run(argv, input=stdin, capture_output=True)
    return done.returncode, done.stderr.decode(errors="replace")[-300:]

def seen():
    found = files_below(there())
    return {path: "" if any(word in path for word in order["random"]) else text for path, text in found.items()}

for command in before:
    code, said = run(command)
    assert code == 0, (command[0][3:], said)
save()
known = seen()
if order["at"] is None:
    print(json.dumps(commands(*killable[0], os.environ, lambda: files_below([*there(), *order["aside"]]))))
    put_back()
    sys.exit()
codes = [run(command) for command in (*killable, *later)]
wanted = seen()
print(json.dumps(codes), flush=True)
for at in order["at"]:
    put_back()
    code, _ = watch(*killable[0], os.environ, lambda number: number == at)
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
    """A script that is killed, and what happens on the machine before and after it."""

    name: str
    killed: Command
    before: Sequence[Command] = ()
    later: Sequence[Command] = ()  # the next scripts of the same step
    kept: Sequence[str] = ()  # files that no kill may change
    refusal: int = 0  # the exit code of the same script if the killed one had done everything


@dataclass(frozen=True)
class Kills:
    """The kills of one script."""

    name: str
    commands: int
    differing: int  # commands at which a kill leaves other files than the kill before it
    tried: int
    problems: Sequence[str]
    lost: Sequence[str]


def shell(text: str, *arguments: str) -> Command:
    return ["sh", "-euc", text, "test", *arguments], b""


def applied(runtime: Runtime, colour: str = "red") -> Command:
    """Return the command that applies a bundle."""
    bundle = runtime.bundle(_coloured(runtime, colour), None, mounted=False)
    return runtime.apply(bundle.id), bundle.archive({}, {})


def _coloured(runtime: Runtime, colour: str) -> Any:
    wanted = agents.workload_with_files(runtime)
    first = wanted.processes[0]
    coloured = replace(first, environment={**first.environment, "COLOUR": colour})
    return replace(wanted, processes=(coloured, *wanted.processes[1:]))


def cases() -> Iterator[Case]:
    """Yield every script that changes something, in a situation where it has much to do."""
    bee, boxed = agents.systemd("bee"), agents.docker("bee")
    state, note = bee.paths.state, f"{bee.paths.home}/learned.md"
    learned = shell('echo tea >"$1" && chown "$2:$2" "$1"', note, str(ATTACKER))
    ready = [applied(bee), learned]
    folder = shell('mkdir -p "$1" && echo tea >"$1/learned.md" && chown -R "$2:$2" "$1"', state, str(ATTACKER))
    bundle = boxed.bundle(_coloured(boxed, "red"), None, mounted=False)
    created: Command = boxed.container.create(bundle.id, replaces=False), bundle.archive({}, {})
    renewed: Command = boxed.container.create(bundle.id, replaces=True), bundle.archive({}, {})
    in_box = [created, applied(boxed), learned]
    boxed_verified: Command = boxed.record_verified(bundle.id), b""
    verified: Command = bee.record_verified(bee.bundle(_coloured(bee, "red"), None, mounted=False).id), b""
    changed = [*ready, verified, applied(bee, "blue")]
    boxed_changed = [*in_box, boxed_verified, renewed, applied(boxed, "blue")]

    yield Case("apply, a new agent", applied(bee))
    yield Case("apply, other settings", applied(bee, "blue"), ready, kept=[note])
    yield Case("apply, after it was verified", applied(bee, "blue"), [*ready, verified], kept=[note])
    yield Case("apply, after a change that was not verified", applied(bee, "green"), changed, kept=[note])
    yield Case("go back", (bee.back(), b""), changed, kept=[note])
    yield Case("stop", (bee.stop(), b""), ready, kept=[note])
    yield Case("start", (bee.start(), b""), [*ready, (bee.stop(), b"")], kept=[note])
    yield Case("record that it is verified", (bee.record_verified("red"), b""), ready, kept=[note])
    saved: Command = of_machine.record_upgrade(bee.paths, "saved", "from=1", "to=2"), b""
    yield Case("record an upgrade: saved", saved, ready, kept=[note])
    for words in (("verified",), ("back", "why"), ("on",), ("ended",)):
        yield Case(
            f"record an upgrade: {words[0]}",
            (of_machine.record_upgrade(bee.paths, *words), b""),
            [*ready, saved],
            kept=[note],
        )
    yield Case("claim for a restore", (of_machine.claim_for_restore(bee.agent, bee.paths, mounted=False), b""))
    claim = of_machine.claim_state(bee.agent, bee.spec.user, bee.paths, mounted=False)
    yield Case("claim existing files", (claim, b""), [folder])
    opened = shell("usermod --expiredate '' --shell /bin/bash mallory")
    yield Case("close the account", (of_machine.close_account(bee.paths), b""), [*ready, opened], kept=[note])
    yield Case("remove", (bee.remove(), b""), ready, kept=[note])
    forget = of_machine.delete_state(bee.agent, bee.paths)
    yield Case("forget", (forget, b""), [*ready, (bee.remove(), b"")])
    yield Case("create a container", created, refusal=75)
    yield Case("recreate a container", renewed, in_box, kept=[note])
    yield Case("apply, in a container", applied(boxed, "blue"), in_box, kept=[note])
    yield Case("record that a container is verified", (boxed.record_verified(bundle.id), b""), in_box, kept=[note])
    yield Case("go back, in a container", (boxed.back(), b""), boxed_changed, kept=[note])
    yield Case("record that a changed container is verified", boxed_verified, boxed_changed, kept=[note])
    yield Case("remove a container", (boxed.remove(), b""), in_box, kept=[note])
    leave = of_machine.remove_left_container(boxed.agent, (), "docker", boxed.paths)
    yield Case("leave an engine", (leave, b""), in_box, kept=[note])
    yield Case("load an image", (script("image/load.sh", ["docker", "load"]), b"archive"), in_box, kept=[note])
    yield Case("pull an image", (boxed.container.pull(), b""), in_box, kept=[note])
    code = ["/opt/paddock/.store", "t1", "home_bee", "tiny", "/usr/bin/python3", "-c", "import tiny"]
    yield Case("install code", (script("code/install.sh", code), _package()), ready, kept=[note])
    text = HOSTKEY.read_text()
    stage, switch = (["sh", "-c", text, "paddock", verb] for verb in ("stage", "switch"))
    yield Case("stage a host key", (stage, b""), later=[(switch, b"")])
    # A run that was killed begins with a new key.
    yield Case("switch to a host key", (["sh", "-c", f"set -- stage\n{text}\nset -- switch\n{text}"], b""))


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
    """Kill a script at all commands at which that makes a difference, or at some that a seed chooses."""
    world.stub("systemctl", SYSTEMCTL)
    world.stub("docker", DOCKER)
    [(commands, differing)] = _lines(world, case, None)
    at = differing if most is None else sorted(random.Random(seed).sample(differing, min(most, len(differing))))
    codes, *kills = _lines(world, case, at)
    assert all(code == 0 for code, _ in codes), (case.name, codes)
    problems = [
        f"{case.name}, killed at command {kill['at']} of {commands}: {why}"
        for kill in kills
        for why in (
            *kill["differ"],
            *(said for code, said in kill["again"] if code not in (0, case.refusal)),
            *(["it was not killed"] if kill["code"] != -signal.SIGKILL else ()),
        )
    ]
    lost = [f"{case.name}, killed at command {kill['at']}: {path}" for kill in kills for path in kill["lost"]]
    return Kills(case.name, commands, len(differing), len(kills), problems, lost)


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
    """Return the scripts that are neither killed here nor named in ``ELSEWHERE``."""
    texts = "\n".join(word for case in cases() for argv, _ in [case.killed, *case.later] for word in argv)
    top = Path(str(resources.files("paddock")))
    return [
        str(path.relative_to(top))
        for path in sorted(top.rglob("*.sh"))
        if path.parent.name != "process"  # an account without root; tests/hostile/test_cut_off.py kills them
        and not path.read_text().startswith("# Library:")
        and path.name not in {each.rpartition("/")[2] for each in ELSEWHERE}
        and own_text(path) not in texts
    ]
