"""A restoration can be interrupted at any moment: there is always one complete home."""

from __future__ import annotations

import fcntl
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from onboard.streams import sent_here
from paddock.onboard.stream import restoration
from paddock.onboard.stream.layout import BadStream
from paddock.onboard.stream.receive import Target
from paddock.onboard.stream.restoration import CannotRestore, Restoration

OLD, NEW = {"MEMORY.md": "old", "more": "old"}, {"MEMORY.md": "new"}
# What a restoration calls to change something.
CALLS = (
    (os, "rename"),
    (os, "unlink"),
    (os, "mkdir"),
    (os, "fsync"),
    (os, "chmod"),
    (os, "chown"),
    (os, "utime"),
    (shutil, "rmtree"),
    (restoration, "_exchange"),
)


class Killed(BaseException):
    """The machine lost its power."""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait until the disk has everything that other tests have written to it."""
    monkeypatch.setattr(Target, "sync", lambda self: None)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    top = tmp_path / "state"
    (top / ".paddock").mkdir(parents=True, mode=0o700)
    (top / "home").mkdir()
    for name, text in OLD.items():
        (top / "home" / name).write_text(text)
    return top


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    home = tmp_path_factory.mktemp("agent") / "source"
    home.mkdir()
    for name, text in NEW.items():
        (home / name).write_text(text)
    return sent_here(home)


def content(folder: Path) -> dict[str, str] | None:
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.is_dir() else None


def receive(state: Path, stream: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    Restoration(str(state)).receive({"owner": None, "limit": 1 << 30, "stream": io.BytesIO(stream)})


def test_a_received_state_becomes_the_home_and_the_old_one_is_kept(
    state: Path, stream: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive(state, stream, monkeypatch)
    assert content(state / "home") == OLD
    Restoration(str(state)).swap()
    assert (content(state / "home"), content(state / ".paddock/before")) == (NEW, OLD)
    Restoration(str(state)).finish()
    assert sorted(path.name for path in (state / ".paddock").iterdir()) == ["lease"]


def test_it_goes_back(state: Path, stream: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    receive(state, stream, monkeypatch)
    Restoration(str(state)).swap()
    Restoration(str(state)).back()
    assert content(state / "home") == OLD
    assert sorted(path.name for path in (state / ".paddock").iterdir()) == ["lease"]


def test_a_damaged_stream_changes_nothing(state: Path, stream: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadStream):
        receive(state, stream[:700], monkeypatch)
    with pytest.raises(CannotRestore):
        Restoration(str(state)).swap()
    assert content(state / "home") == OLD


def test_the_home_of_an_agent_that_runs_is_not_replaced(
    state: Path, stream: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive(state, stream, monkeypatch)
    with (state / ".paddock/lease").open("a") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        with pytest.raises(CannotRestore, match="runs"):
            Restoration(str(state)).swap()
    assert content(state / "home") == OLD


@contextmanager
def killed_at(number: int, *, before: bool) -> Iterator[list[int]]:
    """Kill what runs in the block right before or after its n-th change. Yields the count of changes."""
    count = [0]

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **more: Any) -> Any:
            count[0] += 1
            mine = count[0]
            if mine == number and before:
                raise Killed
            result = real(*words, **more)
            if mine == number:
                raise Killed
            return result

        return call

    with pytest.MonkeyPatch.context() as patched:
        for module, name in CALLS:
            patched.setattr(module, name, wrapped(getattr(module, name)))
        with suppress(Killed):
            yield count


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, 46))
def test_after_a_kill_the_home_is_complete_and_the_restore_can_be_repeated(
    number: int, before: bool, state: Path, stream: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with killed_at(number, before=before):
        receive(state, stream, monkeypatch)
        Restoration(str(state)).swap()
        Restoration(str(state)).back()
        receive(state, stream, monkeypatch)
        Restoration(str(state)).swap()
        Restoration(str(state)).finish()
    assert content(state / "home") in (OLD, NEW)
    Restoration(str(state)).settle()
    assert content(state / "home") in (OLD, NEW)
    if content(state / "home") == NEW and (state / ".paddock/before").exists():
        Restoration(str(state)).back()
        assert content(state / "home") == OLD
    Restoration(str(state)).finish()
    receive(state, stream, monkeypatch)
    Restoration(str(state)).swap()
    assert content(state / "home") == NEW
