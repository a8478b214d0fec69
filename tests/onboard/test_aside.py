"""What would make a copy act is not in its home, and comes back when a person asks for it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from onboard.streams import sent_here
from paddock.onboard.stream.layout import BadStream
from paddock.onboard.stream.restoration import CannotRestore, Restoration

ACTING = [".hermes/cron", ".hermes/*token*.json", ".hermes/.env"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    top = tmp_path / "state"
    (top / ".paddock").mkdir(parents=True, mode=0o700)
    (top / "home").mkdir()
    return top


def source(tmp_path: Path, **files: str) -> Path:
    home = tmp_path / "source"
    for name, text in {
        ".hermes/cron/jobs.json": "[]",
        ".hermes/slack_tokens.json": "{}",
        ".hermes/.env": "A=1",
        ".hermes/memories/MEMORY.md": "a fact",
        **files,
    }.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return home


def receive(state: Path, stream: bytes, monkeypatch: pytest.MonkeyPatch, **more: object) -> Restoration:
    work = Restoration(str(state))
    work.receive({"owner": None, "limit": 1 << 30, "aside": ACTING, "stream": io.BytesIO(stream), **more})
    return work


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_what_acts_never_reaches_the_home_and_comes_back_when_asked_for(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = source(tmp_path)
    work = receive(state, sent_here(home), monkeypatch)
    assert files(state / ".paddock/incoming") == [".hermes/memories/MEMORY.md"]
    work.swap()
    assert files(state / "home") == [".hermes/memories/MEMORY.md"]
    work.finish()
    # The copy may have made some of it again.
    (state / "home/.hermes/cron").mkdir()
    (state / "home/.hermes/cron/output").write_text("of the copy")
    (state / "home/.hermes/.env").write_text("of paddock")
    work.whole()
    assert set(files(state / "home")) == {".hermes/cron/output", *files(home)}
    assert (state / "home/.hermes/.env").read_text() == "A=1"
    assert not (state / ".paddock/set-aside").exists()
    work.whole()


def test_an_interrupted_swap_keeps_what_was_set_aside(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = receive(state, sent_here(source(tmp_path)), monkeypatch)
    with monkeypatch.context() as killed:
        killed.setattr(Restoration, "_complete", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            work.swap()
    work.settle()
    assert files(state / ".paddock/set-aside") == [
        ".hermes/.env",
        ".hermes/cron/jobs.json",
        ".hermes/slack_tokens.json",
    ]


def test_what_was_received_and_never_used_is_discarded(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive(state, sent_here(source(tmp_path)), monkeypatch).settle()
    assert list((state / ".paddock").iterdir()) == []


def test_a_link_above_what_acts_is_refused(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = source(tmp_path)
    (home / ".hermes").rename(home / "elsewhere")
    (home / ".hermes").symlink_to("elsewhere")
    with pytest.raises(BadStream, match=r"'\.hermes' is a link"):
        receive(state, sent_here(home), monkeypatch)


def test_a_link_in_place_of_what_acts_is_set_aside(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = source(tmp_path)
    (home / ".hermes/cron").rename(home / "jobs")
    (home / ".hermes/cron").symlink_to("../jobs")
    work = receive(state, sent_here(home), monkeypatch)
    work.swap()
    assert not os.path.lexists(state / "home/.hermes/cron")
    assert str((state / ".paddock/set-aside/.hermes/cron").readlink()) == "../jobs"


def test_a_missing_file_is_refused(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadStream, match=r"it lacks \.hermes/state\.db"):
        receive(state, sent_here(source(tmp_path)), monkeypatch, expects=[".hermes/state.db"])


def test_a_state_of_which_a_part_is_aside_receives_no_other(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = sent_here(source(tmp_path))
    work = receive(state, stream, monkeypatch)
    work.swap()
    work.finish()
    with pytest.raises(CannotRestore, match="has a part of the state"):
        receive(state, stream, monkeypatch)


def test_the_agent_cannot_redirect_what_comes_back(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = receive(state, sent_here(source(tmp_path)), monkeypatch)
    work.swap()
    work.finish()
    outside = tmp_path / "outside"
    outside.mkdir()
    (state / "home/.hermes/cron").symlink_to(outside)
    work.whole()
    assert list(outside.iterdir()) == []
    assert (state / "home/.hermes/cron/jobs.json").read_text() == "[]"
