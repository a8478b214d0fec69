"""Messages are counted in a database that the agent may have made hostile."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.runtimes.sent import program

QUERY = "SELECT count(*) FROM messages WHERE timestamp > ?"
ENDLESS = "WITH RECURSIVE n(timestamp) AS (SELECT 1 UNION ALL SELECT timestamp + 1 FROM n) SELECT timestamp FROM n"


def count(database: Path, since: float = 0) -> subprocess.CompletedProcess[str]:
    order = {"database": str(database), "query": QUERY, "since": since, "account": None}
    source = program("paddock.onboard.stream.database").replace("SECONDS = 10", "SECONDS = 1")
    argv = [sys.executable, "-I", "-c", source, json.dumps(order)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30)


def made(folder: Path, *statements: str) -> Path:
    path = folder / "state?#%.db"
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    return path


def test_messages_since_a_time_are_counted(tmp_path: Path) -> None:
    path = made(tmp_path, "CREATE TABLE messages (timestamp REAL)", "INSERT INTO messages VALUES (1), (2), (3)")
    assert count(path, since=1.5).stdout == "2\n"


def test_a_view_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    path = made(tmp_path, f"CREATE VIEW messages AS {ENDLESS}")
    done = count(path)
    assert done.returncode != 0
    assert done.stdout == ""


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_a_file_that_is_no_database_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = made(tmp_path)
    path.write_bytes(content)
    done = count(path)
    assert done.returncode == 1
    assert done.stderr.startswith("the messages cannot be counted: ")


def test_the_query_is_the_one_of_hermes() -> None:
    messages = Hermes().keeping(HermesSpec(kind="hermes", place="here", version="0.19.0")).messages
    assert messages
    assert messages.count == QUERY
