"""Numbered records on disk, in a log, in files and in SQLite. It runs on a machine, and knows nothing of Paddock.

python3 records.py write HOST PORT    write records without a pause; acknowledge each to HOST:PORT when it is on disk
python3 records.py examine FOLDER     print how many records there are, and what is wrong with them, as JSON
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import sqlite3
import sys
from pathlib import Path

RING = 64  # files; each is replaced by every 64th record
HEALTH_PORT = 8099  # open from the first record of a start
LARGEST_LIST = 3


def line(number: int) -> str:
    """Return the content of a record. Everyone can compute it, so nothing has to be compared with a copy."""
    return f"{number} {hashlib.sha256(str(number).encode()).hexdigest()}\n"


class Writer:
    """Adds records to a folder, one after the other. A record that an earlier process began is completed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "files").mkdir(exist_ok=True)
        self._log = os.open(folder / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._logged = (folder / "log").read_bytes().count(b"\n")
        self._database = sqlite3.connect(folder / "records.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, line TEXT)")
        self.last: int = self._database.execute("SELECT coalesce(max(number), 0) FROM records").fetchone()[0]

    def add(self) -> int:
        """Write the next record to disk and return its number. The database is last."""
        number = self.last + 1
        if self._logged < number:
            os.write(self._log, line(number).encode())
            os.fsync(self._log)
            self._logged = number
        self._replace_file(number)
        self._database.execute("INSERT INTO records VALUES (?, ?)", (number, line(number)))
        self.last = number
        return number

    def _replace_file(self, number: int) -> None:
        folder = self._folder / "files"
        with (folder / "new").open("w") as file:
            file.write(line(number))
            file.flush()
            os.fsync(file.fileno())
        (folder / "new").replace(folder / str(number % RING))
        directory = os.open(folder, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


def examine(folder: Path) -> dict[str, object]:
    """Return how many records there are and what is wrong with them. A writer may be at work meanwhile."""
    database = sqlite3.connect(f"file:{folder}/records.db?mode=ro", uri=True)
    integrity = [row[0] for row in database.execute("PRAGMA integrity_check")]
    rows = database.execute("SELECT number, line FROM records ORDER BY number").fetchall()
    faults = [] if integrity == ["ok"] else [f"SQLite: {'; '.join(integrity[:LARGEST_LIST])}"]
    faults += _faults("row", [(number, text) == (at, line(at)) for at, (number, text) in enumerate(rows, 1)])
    # The log and the files are written first, so they have at least the records of the database.
    logged = (folder / "log").read_text().splitlines(keepends=True)
    faults += _faults("line of the log", [text == line(at) for at, text in enumerate(logged, 1)])
    if len(logged) < len(rows):
        faults.append(f"the log ends at {len(logged)}, the database at {len(rows)}")
    faults += _faults("file", [_file_is_current(folder, each, len(rows)) for each in range(1, RING + 1)])
    return {"records": len(rows), "faults": faults}


def _faults(what: str, right: list[bool]) -> list[str]:
    wrong = [at for at, each in enumerate(right, 1) if not each]
    return [f"{what} {at} is not as it was written" for at in wrong[:LARGEST_LIST]]


def _file_is_current(folder: Path, position: int, last: int) -> bool:
    """Whether the file of the ring has its newest record, or a later one of a writer that is at work."""
    slot = position % RING
    newest = last - (last - slot) % RING
    if newest <= 0:
        return True
    try:
        text = (folder / "files" / str(slot)).read_text()
        number = int(text.split()[0])
    except (OSError, ValueError, IndexError):
        return False
    return text == line(number) and number >= newest and number % RING == slot


def write(host: str, port: int) -> None:
    """Write records until something stops this process."""
    with socket.create_connection((host, port), timeout=30) as reader, socket.socket() as health:
        writer = Writer(Path.home())
        reader.sendall(f"{writer.add()}\n".encode())
        health.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        health.bind(("127.0.0.1", HEALTH_PORT))
        health.listen()
        health.setblocking(False)
        while True:
            reader.sendall(f"{writer.add()}\n".encode())
            with contextlib.suppress(BlockingIOError):
                health.accept()[0].close()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], int(sys.argv[3]))
    else:
        print(json.dumps(examine(Path(sys.argv[2]))))
