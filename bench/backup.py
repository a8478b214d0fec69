"""Measure a backup to a folder over ssh, and compare it with `tar | zstd` over the same connection.

Run as root, where an sshd can run. The state has many small files, two large ones and a database. Both ways alternate.
With restic installed, the state is also saved twice to a restic repository, with 1 % changed in between.

The exit code is 1 if an aim is missed.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import chart, results
from bench.figures import Aim, Spread

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from paddock.backups.contract import Destination
from paddock.backups.folder import FolderDestination
from paddock.backups.repository import Repository
from paddock.backups.restic import ResticDestination
from paddock.channels.ssh import SshGuest
from paddock.cli.session import looking
from paddock.core.resolve import Located, locate
from paddock.core.streams import about, send
from paddock.file.models.backup import ResticSpec
from paddock.file.secrets.sources import Source
from paddock.show.table import columns
from sshd import sshd

RATIO_LIMIT: Final = 2.0
ADDED_LIMIT: Final = 5.0  # percent
WORDS: Final = ("agent memory", "session message", "tool answer", "the question", "model token", "user time")
FILE: Final = """
project: home
places: {{there: {{host: {{address: 127.0.0.1, port: {port}, key: {folder}/id, host_key: {key}}}}}}}
agents: {{bench: {{kind: service, place: there, command: [sleep, inf], backup: {{to: {folder}/to}}}}}}
"""
_SEALED_BY: Final = "BENCH_REPOSITORY_KEY"  # a variable


def main(argv: Sequence[str]) -> int:
    """Measure, print a table and return the exit code."""
    parser = results.parser("backup", __doc__)
    parser.add_argument("--mebibytes", type=int, help="size of the state (default: 1024, or 128 with --quick)")
    parser.add_argument("--rounds", type=int, help="number of measurements (default: 3, or 1 with --quick)")
    options = parser.parse_args(argv)
    mebibytes = options.mebibytes or (128 if options.quick else 1024)
    rounds = options.rounds or (1 if options.quick else 3)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as made:
        folder = Path(made)
        state = folder / "state/home"
        make_state(state, mebibytes << 20)
        with deployed(folder) as (agent, guest):
            plain, ours = compared(agent, guest, folder, rounds)
            added = added_by_second(agent, guest, folder, mebibytes << 20) if shutil.which("restic") else None
    ratio = ours.median / plain.median
    aims = [Aim("backup, as a multiple of tar | zstd", ratio, RATIO_LIMIT)]
    if added is None:
        print("restic is not installed: its deduplication is not measured", file=sys.stderr)
    elif not options.quick:  # of a small state, the few pieces of 2 MiB that restic stores again are a large part
        aims.append(Aim("second backup in restic with 1 % changed, percent added", added, ADDED_LIMIT))
    rows = [["way", f"seconds for {mebibytes} MiB"], ["tar | zstd", plain.shown()], ["paddock backup", ours.shown()]]
    print("\n".join([columns(rows), "", *map(str, aims)]))
    data = {
        "mebibytes": mebibytes,
        "rounds": rounds,
        "tar_zstd": round(plain.median, 2),
        "backup": round(ours.median, 2),
        "ratio": round(ratio, 2),
        "restic_added_percent": added,
        "aims": [aim.as_data() for aim in aims],
    }
    bars = [chart.Bar("tar | zstd", {"seconds": plain.median}), chart.Bar("backup", {"seconds": ours.median})]
    results.write(options.out, "backup", data, chart.svg([chart.Panel(f"A state of {mebibytes} MiB over ssh", bars)]))
    return int(not all(aim.met for aim in aims))


@contextmanager
def deployed(folder: Path) -> Iterator[tuple[Located, SshGuest]]:
    """Start an sshd, and yield an agent whose state is in a folder of this machine, with its channel over ssh."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id")], check=True)
    (folder / "server").mkdir()
    with sshd(folder / "server", folder / "id.pub", "PermitRootLogin yes\n") as running:
        file = folder / "paddock.yaml"
        file.write_text(FILE.format(port=running.port, key=running.key, folder=folder))
        with looking([file], None) as [agent]:
            # A file may not name a temporary folder as a state.
            state = agent.spec.state.model_copy(update={"path": f"{folder}/state"})
            located = locate(replace(agent, spec=agent.spec.model_copy(update={"state": state})))
            guest = located.place.guest(located.machine_want, located.place.observe(located.machine_want), {})
            if not isinstance(guest, SshGuest):
                raise TypeError("the file names an address")
            yield located, guest


def make_state(home: Path, size: int) -> None:
    """Create a state: a quarter small files, an eighth a database, the rest two large files."""
    chance = random.Random(7)  # noqa: S311 - the state is the same each time
    texts = [_text(chance, 1 << 20) for _ in range(8)]
    small, number = size // 4, 0
    while small > 0:
        folder = home / f"sessions/{number // 500:03}"
        folder.mkdir(parents=True, exist_ok=True)
        length = min(int(chance.expovariate(1 / 9000)) + 200, 1 << 19)
        start = chance.randrange(1 << 19)
        (folder / f"{number:06}.json").write_bytes(chance.choice(texts)[start : start + length])
        small, number = small - length, number + 1
    _make_database(home / "state.db", size // 8, chance, texts[0].decode())
    large = size - size // 4 - size // 8
    contents: list[tuple[str, float, Callable[[int], bytes]]] = [
        ("media.bin", 0.3, chance.randbytes),
        ("log.jsonl", 0.7, lambda length: _text(chance, length)),
    ]
    for name, share, content in contents:
        with (home / name).open("wb") as file:
            for _ in range(int(large * share) >> 20):
                file.write(content(1 << 20))


def _text(chance: random.Random, size: int) -> bytes:
    words = " ".join(f"{chance.choice(WORDS)} {chance.randrange(10**6)}" for _ in range(size // 16))
    return words.encode().ljust(size, b".")[:size]


def _make_database(path: Path, size: int, chance: random.Random, text: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, content TEXT)")
        for _ in range(size // 2000):
            start = chance.randrange(1 << 19)
            database.execute("INSERT INTO messages (content) VALUES (?)", [text[start : start + 1900]])
        database.commit()


def compared(agent: Located, guest: SshGuest, folder: Path, rounds: int) -> tuple[Spread, Spread]:
    """Alternate both ways, and return the seconds of `tar | zstd` and of the backup."""
    _tar(guest, folder)  # from here on the files are in memory
    plain, ours = [], []
    for _ in range(rounds):
        plain.append(_timed(lambda: _tar(guest, folder)))
        shutil.rmtree(folder / "to", ignore_errors=True)
        ours.append(_timed(lambda: _save(agent, guest, FolderDestination(folder / "to", []))))
    return Spread.of(plain), Spread.of(ours)


def added_by_second(agent: Located, guest: SshGuest, folder: Path, size: int) -> float:
    """Save the state to restic twice, with 1 % changed in between, and return how many percent the second adds."""
    os.environ[_SEALED_BY] = "of a repository that is removed at the end"
    os.environ["RESTIC_CACHE_DIR"] = str(folder / "cache")
    spec = ResticSpec(repository=str(folder / "restic"), password=Source(env=_SEALED_BY))
    destination = ResticDestination(Repository(spec, folder), agent.id, lambda _: None)
    _save(agent, guest, destination)
    first = _used(folder / "restic")
    _change(folder / "state/home", size // 100)
    _save(agent, guest, destination)
    return round(100 * (_used(folder / "restic") - first) / first, 2)


def _change(home: Path, size: int) -> None:
    """Change so many bytes beside each other, in files of other sizes than before."""
    chance = random.Random(11)  # noqa: S311 - the same each time
    number = 1000
    while size > 0:
        file = home / f"sessions/{number // 500:03}/{number:06}.json"
        length = int(chance.expovariate(1 / 9000)) + 200
        file.write_bytes(chance.randbytes(length))
        size, number = size - length, number + 1


def _used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _timed(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def _tar(guest: SshGuest, folder: Path) -> None:
    with guest.piped(["tar", "-C", f"{folder}/state", "-cf", "-", "home"]) as pipes:
        command = ["zstd", "-3", "-q", "-f", "-o", str(folder / "plain.tar.zst")]
        subprocess.run(command, stdin=pipes.source, check=True)


def _save(agent: Located, guest: SshGuest, destination: Destination) -> None:
    destination.check()
    send(agent, guest, destination, about(agent, None))
