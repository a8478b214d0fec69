"""A copy of a database that the agent holds up has an end, and what killed runs left is removed."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from paddock.onboard.stream import database
from paddock.onboard.stream.database import CannotCopy, DatabaseOrder, copied_database, remove_left, staged


def test_a_copy_that_the_agent_stops_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite3.connect(tmp_path / "a.db").execute("CREATE TABLE t (x)")
    monkeypatch.setattr(database, "COPY_SECONDS", 0.3)
    child = tmp_path / "child"

    def stopped(*_: object) -> None:
        child.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)

    monkeypatch.setattr(database, "_copy_in_child", stopped)
    order, began = DatabaseOrder(str(tmp_path / "a.db"), str(tmp_path / "copy.db"), "ro", False), time.monotonic()
    with pytest.raises(CannotCopy, match="was not ready after 0 s"):
        copied_database(order, (tmp_path / "a.db").stat())
    assert time.monotonic() - began < 5
    assert not Path(f"/proc/{child.read_text()}").exists()


def test_copies_of_killed_runs_are_removed_and_those_in_use_stay(tmp_path: Path) -> None:
    (tmp_path / ".copy-killed").mkdir()
    (tmp_path / ".copy-killed/copy.db").touch()
    (tmp_path / ".copy-link").symlink_to("/etc")
    (tmp_path / "home").mkdir()
    with staged(str(tmp_path), os.getuid(), os.getgid()) as made:
        remove_left(str(tmp_path))
        assert {each.name for each in tmp_path.iterdir()} == {Path(made).name, ".copy-link", "home"}
    assert {each.name for each in tmp_path.iterdir()} == {".copy-link", "home"}
