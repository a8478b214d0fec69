#!/usr/bin/env python3
"""Measure a backup to a folder over ssh, and compare it with `tar | zstd` over the same connection.

Run as root, where an sshd can run: .venv/bin/python bench/backup.py [--mebibytes N] [--rounds N]

The state has many small files, two large ones and a database. Both ways alternate. Prints one JSON line with the median
seconds of both and their ratio. The exit code is 1 if the ratio is above its limit.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from paddock.backups.folder import FolderDestination
from paddock.cli.session import looking
from paddock.guests import Guest
from paddock.guests.ssh import SshGuest
from paddock.run.resolve import Located, locate
from paddock.run.sending import about, send
from sshd import sshd

RATIO_LIMIT = 2.0
WORDS = ("agent memory", "session message", "tool answer", "the question", "model token", "user time")
FILE = """
project: home
places: {{there: {{host: {{address: 127.0.0.1, port: {port}, key: {folder}/id, host_key: {key}}}}}}}
agents: {{bench: {{kind: service, place: there, command: [sleep, inf], backup: {{to: {folder}/to}}}}}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=1024, help="size of the state (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="number of measurements (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as made:
        folder = Path(made)
        make_state(folder / "state/home", options.mebibytes << 20)
        with deployed(folder) as agent:
            result = compared(agent, folder, options.rounds)
    print(json.dumps({"mebibytes": options.mebibytes, "rounds": options.rounds, **result}))
    if result["ratio"] > RATIO_LIMIT:
        sys.exit(1)


@contextmanager
def deployed(folder: Path) -> Iterator[Located]:
    """Start an sshd, and return an agent whose state is in a folder of this machine and is reached over ssh."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id")], check=True)
    (folder / "server").mkdir()
    with sshd(folder / "server", folder / "id.pub", "PermitRootLogin yes\n") as running:
        file = folder / "paddock.yaml"
        file.write_text(FILE.format(port=running.port, key=running.key, folder=folder))
        with looking([file], None) as [agent]:
            # A file may not name a temporary folder as a state.
            state = agent.spec.state.model_copy(update={"path": f"{folder}/state"})
            yield locate(replace(agent, spec=agent.spec.model_copy(update={"state": state})))


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


def compared(agent: Located, folder: Path, rounds: int) -> dict[str, float]:
    """Alternate both ways, and return the medians of their seconds."""
    guest = agent.place.guest(agent.machine_want, agent.place.observe(agent.machine_want), {})
    assert isinstance(guest, SshGuest)  # noqa: S101 - the file names an address
    _tar(guest, folder)  # from here on the files are in memory
    both = [(_timed(lambda: _tar(guest, folder)), _timed(lambda: _backup(agent, guest, folder))) for _ in range(rounds)]
    plain, ours = (median(each) for each in zip(*both, strict=True))
    return {"tar_zstd": round(plain, 2), "backup": round(ours, 2), "ratio": round(ours / plain, 2)}


def _timed(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def _tar(guest: SshGuest, folder: Path) -> None:
    with guest.piped(["tar", "-C", f"{folder}/state", "-cf", "-", "home"]) as pipes:
        command = ["zstd", "-3", "-q", "-f", "-o", str(folder / "plain.tar.zst")]
        subprocess.run(command, stdin=pipes.source, check=True)


def _backup(agent: Located, guest: Guest, folder: Path) -> None:
    shutil.rmtree(folder / "to", ignore_errors=True)
    destination = FolderDestination(folder / "to", [])
    destination.check()
    send(agent, guest, destination, about(agent, None))


if __name__ == "__main__":
    main()
