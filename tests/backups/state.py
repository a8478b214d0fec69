"""A large state of an agent, for backups of it before and after changes."""

from __future__ import annotations

import copy
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path


class State:
    """Sessions of many sizes, a large file and a database, all with content that cannot be compressed."""

    def __init__(self, home: Path, size: int) -> None:
        self.home = home
        self.size = size
        self._chance = random.Random(7)
        self._sessions = self._messages = 0
        (home / "sessions").mkdir(parents=True)
        (home / "media.bin").write_bytes(self._chance.randbytes(self.size // 4))
        with closing(sqlite3.connect(home / "state.db")) as database:
            database.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, at INTEGER, content BLOB)")
            database.execute("CREATE INDEX by_time ON messages (at)")
            database.commit()
        self.add_messages(self.size // 4)
        self.add_sessions(self.size // 2)

    def add_messages(self, size: int) -> None:
        with closing(sqlite3.connect(self.home / "state.db")) as database:
            for _ in range(size >> 10):
                row = (self._messages, self._chance.randbytes(1000))
                database.execute("INSERT INTO messages (at, content) VALUES (?, ?)", row)
                self._messages += 1
            database.commit()

    def add_sessions(self, size: int, folder: str = "sessions") -> None:
        (self.home / folder).mkdir(exist_ok=True)
        while size > 0:
            size -= self._write(f"{folder}/{self._sessions:06}.json")
            self._sessions += 1

    def change_sessions(self, size: int, first: int) -> None:
        while size > 0:
            size -= self._write(f"sessions/{first:06}.json")
            first += 1

    def change_media(self, size: int) -> None:
        with (self.home / "media.bin").open("r+b") as file:
            file.seek(7 << 20)
            file.write(self._chance.randbytes(size))

    def copied_to(self, home: Path) -> State:
        """Return a copy whose files can be changed."""
        found = copy.deepcopy(self)
        found.home = Path(shutil.copytree(self.home, home))
        return found

    def _write(self, name: str) -> int:
        size = int(self._chance.expovariate(1 / 9000)) + 100
        (self.home / name).write_bytes(self._chance.randbytes(size))
        return size
