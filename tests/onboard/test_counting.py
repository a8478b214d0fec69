"""Messages are counted in a database that the agent may have made hostile."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.onboard.stream import database
from paddock.onboard.stream.database import CountMessages
from performed import performed

QUERY = "SELECT count(*) FROM messages WHERE timestamp > ?"
ENDLESS = "WITH RECURSIVE n(timestamp) AS (SELECT 1 UNION ALL SELECT timestamp + 1 FROM n) SELECT timestamp FROM n"


@pytest.fixture(autouse=True)
def one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "SECONDS", 1)


def count(path: Path, since: int = 0) -> Any:
    return performed(CountMessages(str(path), QUERY, since, ""))


def made(folder: Path, *statements: str) -> Path:
    path = folder / "state?#%.db"
    with closing(sqlite3.connect(path)) as made:
        for statement in statements:
            made.execute(statement)
        made.commit()
    return path


def test_messages_since_a_time_are_counted(tmp_path: Path) -> None:
    path = made(tmp_path, "CREATE TABLE messages (timestamp REAL)", "INSERT INTO messages VALUES (1), (2), (3)")
    assert count(path, since=1) == 2


def test_a_view_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    path = made(tmp_path, f"CREATE VIEW messages AS {ENDLESS}")
    assert count(path) is None


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_a_file_that_is_no_database_is_not_counted(tmp_path: Path, content: bytes) -> None:
    path = made(tmp_path)
    path.write_bytes(content)
    assert count(path) is None


def test_the_query_is_the_one_of_hermes() -> None:
    messages = Hermes().keeping(HermesSpec(kind="hermes", place="here", version="0.19.0")).messages
    assert messages
    assert messages.count == QUERY
