"""Check every database in an agent's home, and count its rows. Runs on the machine, as the agent.

The argument is JSON: `home`, and the patterns `databases` and `rebuilt`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing

from paddock.onboard.stream.layout import matcher


def look(home: str, databases: list[str], rebuilt: list[str]) -> dict[str, list[object]]:
    """Return for each database what SQLite says of it, and how many rows it has."""
    wanted, unwanted = matcher(databases), matcher(rebuilt)
    found: dict[str, list[object]] = {}
    for folder, _, names in os.walk(home):
        for name in names:
            path = os.path.relpath(f"{folder}/{name}", home)
            if wanted.fullmatch(path) and not unwanted.fullmatch(path):
                found[path] = list(examined(f"{folder}/{name}"))
    return found


def examined(path: str) -> tuple[str, int]:
    """Return SQLite's verdict on a database, and the number of its rows."""
    try:
        with closing(sqlite3.connect(path, timeout=30)) as database:
            said = str(database.execute("PRAGMA integrity_check").fetchone()[0])
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return said, sum(rows(database, table) for table in tables)
    except sqlite3.Error as error:
        return str(error), 0


def rows(database: sqlite3.Connection, table: str) -> int:
    quoted = table.replace('"', '""')
    try:
        return int(database.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0])  # noqa: S608
    except sqlite3.Error:
        return 0  # a virtual table whose module is not in Python's SQLite


def main() -> None:
    json.dump(look(**json.loads(sys.argv[1])), sys.stdout)
