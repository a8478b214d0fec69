"""An agent changes its home as fast as it can while root applies bundles there: nothing outside its home changes.

The agent exchanges entries of its home in one step (renameat2): files, folders with their contents, pipes, links that
lead to files and folders of others, and a second name of a file of root's. Meanwhile files of root's appear in the
home, as a container of the agent may create them, and `apply` gives them to the agent.

Between the applications, the part of `apply` that writes the home is repeated alone: that is twenty times as fast.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from hostile import agents
from hostile.ground import ATTACKER, Machine, as_root
from hostile.private_machine import PrivateMachine
from hostile.stubs import SYSTEMCTL
from killed_script import files_below
from levels import by_level, slow_proof
from paddock.channels.onboard import Answer, Request, answer_of, framed_payload, sent
from paddock.kinds.workload import Keep, StateFile
from paddock.onboard.agent import Agent
from paddock.onboard.configure import Sent
from paddock.onboard.program.frozen import encoded
from paddock.onboard.program.serve import UNEXPECTED, VERSION
from paddock.runtimes.systemd.runtime import Systemd

pytestmark = as_root

SECONDS: Final = by_level(5, 300)
FOUND_WITHIN: Final = by_level(60, 600)  # seconds; it ends with the first hit

STATE: Final = "/srv/bee"  # in memory, where an exchange takes the least time
# Files that the agent cannot write. They are on the disk of the home, so that one of them has a second name there.
CANARIES: Final = "/srv/canaries"
STOCK: Final = "/srv/stock"  # of files that a container is about to create
_SET_UP: Final = """
mkdir -p "$1/folder/locked"
mkdir -m 700 "$3"
for name in roots others hard folder/.env folder/locked/.env; do echo "$name" >"$1/$name"; done
chmod 600 "$1/roots" "$1/others" "$1/hard" "$1/folder/.env"
chown -R 4321:4321 "$1/others" "$1/folder"
ln "$1/hard" "$2/hard"
"""
# Arguments: STOCK HOME UID; runs as root, as a process in a container would. It moves folders of files of root's there.
_CONTAINER: Final = r"""
import itertools, os, sys, time
stock, home, uid = sys.argv[1:]
for number in itertools.count():
    new = f"{stock}/{number}"
    os.mkdir(new, 0o755)
    for name in range(30):
        open(f"{new}/{name}", "x").close()
    os.chown(new, int(uid), int(uid))
    try:
        os.rename(new, f"{home}/bait-{number:09}")
    except OSError:  # the agent has put something there
        pass
    time.sleep(0.01)
"""
# What root may change there is left out.
_LOOKED_AT: Final = ("/etc", "/srv", "/usr/local/bin")
_ROOTS_OWN: Final = ("/etc/paddock", "/etc/systemd/system", STATE, STOCK)

# Arguments: HOME OUTSIDE...; runs as the agent until SIGTERM, and prints how often it has exchanged two entries. What
# takes an entry's place is in the same folder: other exchanges have a lock that both attackers would wait for.
_ATTACK: Final = r"""
import ctypes, json, os, random, signal, subprocess, sys
home, *outside = sys.argv[1:]
os.chdir(home)
exchange, swapped = ctypes.CDLL(None).renameat2, 0
DECOY, HELD = ".decoy-", ("locked", "a", "a/b")

def stop(*_):
    print(json.dumps(swapped), flush=True)
    os._exit(0)

def attempt(work, *arguments):
    try:
        return work(*arguments)
    except OSError:
        return None

def there(folder):
    return [f"{folder}/{name}" for name in attempt(os.listdir, folder) or ()]

def decoys(folder):
    begin = f"{folder}/{DECOY}"
    for number, path in enumerate(outside):
        attempt(os.symlink, path, f"{begin}{number}")
    attempt(os.mkfifo, f"{begin}pipe")
    attempt(os.makedirs, f"{begin}folder/locked")
    file = attempt(os.open, f"{begin}file", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW, 0o600)
    if file is not None:
        os.close(file)
    return [path for path in there(folder) if DECOY in path]

def aim():
    # Folders that root holds, files that become the agent's, or anything.
    chosen = random.random()
    if chosen < 0.3:
        return "./" + random.choice(HELD)
    baits = sorted(path for path in there(".") if "/bait-" in path or ".found-" in path)
    if len(baits) > 8:
        subprocess.run(["rm", "-rf", *baits[:-2]], stderr=subprocess.DEVNULL)
    folder = baits[-1] if baits and chosen < 0.9 else random.choice([".", "./a", "./a/b", "./locked", "./.local"])
    names = [path for path in there(folder) if DECOY not in path]
    return random.choice(names) if names else "./.hermes/notes.md"

signal.signal(signal.SIGTERM, stop)
while True:
    one = aim()
    found = decoys(os.path.dirname(one))
    if not os.path.lexists(one):
        attempt(os.makedirs, one)
    for _ in range(20):
        one, other = one.encode() if isinstance(one, str) else one, random.choice(found or ["./hard"]).encode()
        # Mostly there and back again, so that the right entry is there when root looks.
        for _ in range(random.choice((2, 20, 20, 41))):
            if exchange(-100, one, -100, other, 2):
                break
            swapped += 1
"""


# A module that is sent with the others: it writes the files of bundles into the home, and tells how often it could.
_REPEATED: Final = """
from paddock.onboard.agent import Agent
from paddock.onboard.configure import Sent
from paddock.onboard.files import make_folder, write
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import Refusal
from paddock.onboard.state.home import Home

@frozen
class WriteHome:
    agent: Agent
    bundles: tuple[Sent, ...]
    times: int

    def perform(self, _):
        for bundle in self.bundles:
            for path, file in bundle.files.items():
                make_folder(f"/run/races/{bundle.id}/{path}".rpartition("/")[0])
                write(f"/run/races/{bundle.id}/{path}", file.content, file.mode)
        done, refused = 0, []
        for number in range(self.times):
            folder = f"/run/races/{self.bundles[number % len(self.bundles)].id}"
            try:
                Home(self.agent.root, folder, f"{folder}/secret-files").write()
                done += 1
            except (Refusal, OSError) as error:
                refused.append(str(error))
        return {"done": done, "refused": refused}
"""


@dataclass
class Race:
    """What came of a race."""

    hits: list[str] = field(default_factory=list)  # what changed outside the home
    done: int = 0  # requests that were carried out
    refused: list[str] = field(default_factory=list)
    swapped: int = 0  # entries that the agent has exchanged
    seconds: float = 0

    def __str__(self) -> str:
        times = f"{self.done} writes done, {len(self.refused)} refused, {self.swapped} entries exchanged"
        return f"{times}, {self.seconds:.1f} s; changed outside: {self.hits or 'nothing'}"


@dataclass(frozen=True)
class Planted:
    """A defect in the program that is sent: some texts of a module have others in their places."""

    module: str
    texts: Mapping[str, str]

    def into(self, sources: dict[str, str]) -> None:
        for right, wrong in self.texts.items():
            assert right in sources[self.module]
            sources[self.module] = sources[self.module].replace(right, wrong)


def race(ground: Machine, seconds: float, planted: Planted | None = None) -> Race:
    """Apply bundles for so long, while the agent changes its home. Stop at the first change outside the home."""
    ground.stub("systemctl", SYSTEMCTL)
    bee, found = _agent(), Race()
    agents.installed(ground, bee, agents.workload_with_files(bee))
    ground.root(_SET_UP, CANARIES, bee.paths.home, STOCK)
    before, canaries = _outside(ground, _LOOKED_AT), _outside(ground, [CANARIES])
    began = time.monotonic()
    with _attack(ground, bee.paths.home) as attackers:
        for batch in itertools.repeat(_requests(bee)):
            for answer in _asked(ground, batch, planted):
                if answer.result.ok:
                    found.done += 1
                else:
                    found.refused.append(f"{answer.result.code} {answer.result.err}")
                if isinstance(answer.value, dict) and "refused" in answer.value:  # of WriteHome
                    found.done += answer.value["done"]
                    found.refused += answer.value["refused"]
            found.hits = _changes(canaries, _outside(ground, [CANARIES]))
            found.seconds = time.monotonic() - began
            if found.hits or found.seconds > seconds:
                break
    found.swapped = sum(json.loads(each.communicate()[0]) for each in attackers)
    found.hits = _changes(before, _outside(ground, _LOOKED_AT))
    return found


def _agent() -> Systemd:
    return agents.systemd("bee", state={"path": STATE})


@dataclass(frozen=True)
class _WriteHome:
    """The request that ``_REPEATED`` answers."""

    agent: Agent
    bundles: Sequence[Sent]
    times: int

    def framed(self) -> bytes:
        given = {"agent": encoded(self.agent), "bundles": [encoded(each) for each in self.bundles], "times": self.times}
        asked = {"version": VERSION, "module": "paddock.onboard.races", "name": "WriteHome", "given": given}
        data = json.dumps(asked).encode()
        return b"R %d\n%s" % (len(data), data) + framed_payload(b"")


def _requests(bee: Systemd) -> list[Request | _WriteHome]:
    """Return what root does: apply bundles whose files differ, and observe."""
    files, plain = agents.workload_with_files(bee), agents.workload(bee)
    others = tuple(replace(each, content=f"another {each.content}") for each in files.state_files)
    more = (
        *others,
        StateFile("a/b/locked", "locked\n", Keep.LOCKED),
        StateFile(".local/notes", "seeded\n", Keep.SEEDED),
    )
    wanted = (files, plain, replace(files, state_files=more), plain)
    bundles = [bee.bundle(each, None, mounted=False).sent({}, {}) for each in wanted]
    return [*map(bee.apply, bundles), bee.observe(()), _WriteHome(bee.deployed, bundles, 60)]


def _asked(ground: Machine, batch: Sequence[Request | _WriteHome], planted: Planted | None = None) -> list[Answer]:
    """Make requests to one process, and return their answers."""
    argv, _ = sent(next(each for each in batch if not isinstance(each, _WriteHome)))
    modules, requests = {"paddock.onboard.races": _REPEATED}, b""
    for each in batch:
        if isinstance(each, _WriteHome):
            requests += each.framed()
        else:
            head, _, rest = sent(each)[1].partition(b"\n")
            kind, length = head.split()
            assert kind == b"M"
            modules |= json.loads(zlib.decompress(rest[: int(length)]))
            requests += rest[int(length) :]
    if planted:
        planted.into(modules)
    program = zlib.compress(json.dumps(modules).encode())
    done = ground.run(argv, stdin=b"M %d\n%s" % (len(program), program) + requests, seconds=300)
    lines = [line for line in done.out.split("\0")[1:] if "code" in json.loads(line)]
    assert len(lines) == len(batch), done
    return [answer_of(replace(done, out=f"\0{line}"), "the machine") for line in lines]


@contextmanager
def _attack(ground: Machine, home: str) -> Iterator[Sequence[subprocess.Popen[str]]]:
    """Run the attack in two processes with the agent's rights, and yield these."""
    outside = [f"{CANARIES}/{name}" for name in ("roots", "others", "hard", "folder", "folder/locked", "folder/.env")]
    python = ["python3", "-I", "-S", "-c"]
    as_agent = ["setpriv", "--reuid", str(ATTACKER), "--regid", str(ATTACKER), "--clear-groups", *python]
    enter = ["nsenter", "--target", str(ground.pid), "--mount", "--root", "--wd", "--"]
    argv = [[*enter, *python, _CONTAINER, STOCK, home, str(ATTACKER)]]
    argv += [[*enter, *as_agent, _ATTACK, home, *outside]] * 2
    running = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in argv]
    try:
        yield running[1:]
    finally:
        for each in running:
            each.terminate()
            each.wait(10)


def _outside(ground: Machine, tops: Sequence[str]) -> dict[str, str]:
    """Return all that the machine has there, with owners, modes and contents, except for what Paddock may change."""
    root = str(PrivateMachine(ground).at(""))
    found = files_below(f"{root}{top}" for top in tops)
    paths = {path.removeprefix(root): about for path, about in found.items()}
    return {
        path: about
        for path, about in paths.items()
        if not any(f"{path}/".startswith(f"{each}/") for each in _ROOTS_OWN)
    }


def _changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return [
        f"{path}: {before.get(path)} became {now.get(path)}"
        for path in sorted({*before, *now})
        if before.get(path) != now.get(path)
    ]


def test_nothing_outside_the_home_changes_while_the_agent_races(
    ground: Machine, show_table: Callable[[str], None]
) -> None:
    found = race(ground, SECONDS)
    show_table(f"an agent that races: {found}")
    assert found.hits == []
    assert [why for why in found.refused if why.startswith(f"{UNEXPECTED} ")] == []
    # Root has done its part of the refused ones, too: the agent has spoiled what is written with its own rights.
    assert found.done > 0, found
    assert found.done + len(found.refused) > SECONDS, found
    assert found.swapped > 1000 * SECONDS, found

    # The agent can have its files again, and root's are as the bundle says.
    bee = _agent()
    ground.agent('cd "$1" && rm -rf a .local .hermes locked* .decoy-*', bee.paths.home)
    agents.installed(ground, bee, agents.workload_with_files(bee))
    assert ground.root('cd "$1" && stat -c "%u %a" locked/.env && cat locked/.env', bee.paths.home) == "0 444\nlocked\n"


_GIVE: Final = 'os.chown(f"/proc/self/fd/{descriptor}", uid, gid)'
_LATER: Final = """
    for path in later:
        try:
            os.chown(path, uid, gid)
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(
            Planted(
                "paddock.onboard.state.owners",
                {
                    "    counts = [0, 0]\n": "    counts, later = [0, 0], []\n",
                    _GIVE: "later.append(os.path.join(here, path))",
                    '\n    walk(top, "", 1)\n': f'\n    walk(top, "", 1)\n{_LATER}',
                },
            ),
            id="entries-are-found-and-then-given",
        ),
        pytest.param(
            Planted("paddock.onboard.state.owners", {_GIVE: "os.chown(os.path.join(here, path), uid, gid)"}),
            id="an-entry-is-given-by-its-path",
            marks=slow_proof,
        ),
        pytest.param(
            Planted("paddock.onboard.files", {"os.O_DIRECTORY | os.O_NOFOLLOW": "os.O_DIRECTORY"}),
            id="a-folder-is-opened-through-a-link",
            marks=slow_proof,
        ),
    ],
)
def test_the_race_finds_a_check_that_is_not_the_use(ground: Machine, planted: Planted) -> None:
    found = race(ground, FOUND_WITHIN, planted)
    assert found.hits, found
