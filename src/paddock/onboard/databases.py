"""Check every database in an agent's home, and count its rows, with the agent's rights."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from paddock.onboard.program.frozen import encoded, frozen
from paddock.onboard.state.child import as_agent, ids_of
from paddock.onboard.stream.layout import matcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paddock.onboard.program.serve import Payload

SECONDS = 600


@frozen
class Examined:
    said: str  # SQLite's verdict
    rows: int


@frozen
class CheckDatabases:
    """Report each database."""

    home: str
    databases: list[str]  # patterns
    rebuilt: list[str]  # patterns of those that do not count
    account: str  # empty if the agent has the rights of the account that supervises it

    def perform(self, _: Payload) -> Any:
        return as_agent(ids_of(self.account), self._look, seconds=SECONDS)

    def _look(self) -> dict[str, object]:
        wanted, unwanted = matcher(self.databases), matcher(self.rebuilt)
        found: dict[str, object] = {}
        for folder, _, names in os.walk(self.home):
            for name in names:
                path = os.path.relpath(f"{folder}/{name}", self.home)
                if wanted.fullmatch(path) and not unwanted.fullmatch(path):
                    found[path] = encoded(_examined(f"{folder}/{name}"))
        return found


def _examined(path: str) -> Examined:
    try:
        with closing(sqlite3.connect(path, timeout=30)) as database:
            said = str(database.execute("PRAGMA integrity_check").fetchone()[0])
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return Examined(said, sum(_rows(database, table) for table in tables))
    except sqlite3.Error as error:
        return Examined(str(error), 0)


def _rows(database: sqlite3.Connection, table: str) -> int:
    quoted = table.replace('"', '""')
    try:
        return int(database.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0])  # noqa: S608
    except sqlite3.Error:
        return 0  # a virtual table whose module is not in Python's SQLite
