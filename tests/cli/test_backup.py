"""Backups of an agent on this machine, as a user without root makes and uses them."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from cli.conftest import Paddock
from paddock.backups.folder import FolderDestination
from paddock.base.errors import PaddockError

FILE = """
project: home
places: {here: {host: {}}}
agents:
  web:
    kind: service
    place: here
    runtime: process
    command: [sleep, inf]
    backup: {to: ./backups, keep: {last: 1}}
"""


class Web:
    """A folder with a file, and the state of its agent."""

    def __init__(self, folder: Path, run: Paddock) -> None:
        self.folder = folder
        self.run = run
        (folder / "paddock.yaml").write_text(FILE)
        self.paddock("up")
        self.state = Path(os.environ["XDG_DATA_HOME"]) / "paddock/web/state"
        self.home = self.state / "home"
        (self.home / "note").write_text("first")

    def paddock(self, *words: str) -> str:
        done = self.run(*words)
        assert done.code == 0, done.err
        return done.out

    def backup(self) -> str:
        """Make a backup and return its name."""
        self.paddock("backup", "web")
        return str(self.backups()[-1]["backup"])

    def backups(self) -> list[dict[str, object]]:
        return list(json.loads(self.paddock("backup", "list", "--json")))


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paddock: Paddock) -> Web:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return Web(tmp_path / "project", paddock)


def test_a_backup_comes_back_and_the_state_from_before_is_kept(web: Web) -> None:
    name = web.backup()
    assert f"web: backup {name} is complete: 1 file" in web.paddock("backup", "check", "web")
    (web.home / "note").write_text("second")
    (web.home / "extra").touch()
    assert web.run("restore", "web", stdin="n\n").code == 2
    assert (web.home / "note").read_text() == "second"
    assert f"unpack backup {name} beside the state of web" in web.paddock("restore", "web", "--dry-run")
    assert web.paddock("restore", "web", "--yes") == f"web: restored from backup {name}; `paddock run web` runs it\n"
    assert sorted(path.name for path in web.home.iterdir()) == ["note", "workspace"]
    assert (web.home / "note").read_text() == "first"
    assert "has the state from before a restore" in web.paddock("plan")
    web.paddock("restore", "web", "--undo", "--yes")
    assert sorted(path.name for path in web.home.iterdir()) == ["extra", "note", "workspace"]
    assert (web.home / "note").read_text() == "second"
    assert "has no state from before a restore" in web.run("restore", "web", "--undo", "--yes").err


def test_a_restore_saves_what_the_agent_learned_since_the_backup(web: Web) -> None:
    first = web.backup()
    (web.home / "note").write_text("learned since")
    said = web.run("restore", "web", "--yes")
    assert (web.home / "note").read_text() == "first"
    [kept, replaced] = web.backups()
    assert (kept["backup"], kept["purpose"], replaced["purpose"]) == (first, "-", "replaced")
    assert f"the state is saved as backup {replaced['backup']}" in said.err

    # It is chosen only by its name, is not counted as a backup that is kept, and comes back whole.
    assert f"backup {first} is complete" in web.paddock("backup", "check", "web")
    assert "(replaced)" in web.paddock("backup", "prune")
    assert [row["backup"] for row in web.backups()] == [first, replaced["backup"]]
    assert f"restored from backup {first}" in web.paddock("restore", "web", "--yes")
    web.paddock("restore", "web", str(replaced["backup"]), "--yes")
    assert (web.home / "note").read_text() == "learned since"


def test_the_question_of_a_restore_names_the_age_and_what_would_be_forgotten(web: Web) -> None:
    name = web.backup()
    asked = web.run("restore", "web", stdin="n\n").err
    assert f"Replace the state of web by backup {name} (0m " in asked
    assert "web would forget what it learned in 0:00:0" in asked
    assert "A backup keeps it." in asked


def test_a_state_that_cannot_be_saved_is_replaced_only_if_its_name_is_typed(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.backup()
    (web.home / "note").write_text("second")

    def full(*_: object) -> None:
        raise PaddockError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(FolderDestination, "save", full)
        failed = web.run("restore", "web", "--yes")
    assert failed.code == 1
    assert "was not replaced, because it could not be saved first" in failed.err
    assert "`paddock restore web --discard-state` replaces it without a copy" in failed.err
    assert (web.home / "note").read_text() == "second"

    assert web.run("restore", "web", "--discard-state", "--yes", stdin="other\n").code == 2
    assert (web.home / "note").read_text() == "second"
    assert web.run("restore", "web", "--discard-state", stdin="web\n").code == 0
    assert (web.home / "note").read_text() == "first"
    assert len(web.backups()) == 1


@pytest.mark.parametrize("words", ["--undo x", "--undo --dry-run", "--undo --as new", "--undo --discard-state"])
def test_undo_takes_no_option_that_it_would_ignore(web: Web, words: str) -> None:
    refused = web.run("restore", "web", *words.split(), "--yes")
    assert (refused.code, "--undo takes no backup and no other option but --yes" in refused.err) == (2, True)


def test_a_new_agent_discards_no_state(web: Web) -> None:
    web.backup()
    refused = web.run("restore", "web", "--as", "new", "--discard-state")
    assert (refused.code, "a new agent has no state to discard" in refused.err) == (2, True)


def test_without_anything_to_undo_nothing_is_asked(web: Web) -> None:
    failed = web.run("restore", "web", "--undo", stdin="y\n")
    assert failed.code == 2
    assert "has no state from before a restore" in failed.err
    assert "Delete what web has learned" not in failed.err


def test_a_running_agent_keeps_its_state(web: Web) -> None:
    web.backup()
    (web.home / "note").write_text("second")
    (web.state / ".paddock/holder").write_text("paddock run web")
    with (web.state / ".paddock/lease").open("a") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        failed = web.run("restore", "web", "--yes")
    assert failed.code == 1
    assert "the agent is running (paddock run web); end it first" in failed.err
    assert (web.home / "note").read_text() == "second"
    assert web.paddock("up").startswith("web: ready")
    assert sorted(path.name for path in (web.state / ".paddock").iterdir() if path.name.startswith("inc")) == []


def test_old_backups_are_removed_when_asked(web: Web) -> None:
    web.backup()
    newest = web.backup()
    assert "would remove" in web.paddock("backup", "prune", "--dry-run")
    assert len(json.loads(web.paddock("backup", "list", "--json"))) == 2
    assert "removed" in web.paddock("backup", "prune")
    assert [row["backup"] for row in json.loads(web.paddock("backup", "list", "--json"))] == [newest]


def test_without_a_backup_in_the_file_the_error_says_what_to_add(web: Web) -> None:
    (web.folder / "paddock.yaml").write_text(FILE.replace("    backup: {to: ./backups, keep: {last: 1}}\n", ""))
    failed = web.run("backup", "web")
    assert failed.code == 2
    assert "web has no backup in the file" in failed.err
    assert "backup: {to: ./backups}" in failed.err
