"""Another version of the code gets a state only after the state was saved, and the record tells how far it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.onboard.agent import Agent
from paddock.onboard.observe import READERS, Look, Observe
from paddock.onboard.program.frozen import decoded
from paddock.onboard.program.refusal import UNSAVED, Refusal
from paddock.onboard.state.version import RecordUpgrade, expect_saved_state
from paddock.plan.version import Upgrade
from performed import performed

RECORD = {"from": "1.0", "to": "2.0", "backup": "b", "where": "/backups", "at": "7"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    own = tmp_path / "state/.paddock"
    own.mkdir(parents=True, mode=0o700)
    (own / "identity").write_text("version=2\nagent=home_bee\nid=x\n")
    (own / "version").write_text("1.0\n")
    (own / "holder").write_text("someone\n")
    (tmp_path / "state/home").mkdir()
    os.utime(own / "holder", (1, 1))
    return tmp_path / "state"


def let(state: Path, version: str) -> int:
    """Ask whether a version of the code may touch the state; return the code of the answer."""
    try:
        expect_saved_state(str(state), str(state.parent / "root"), version, "")
    except Refusal as refusal:
        return refusal.code
    return 0


def record(state: Path, what: str, **facts: str) -> Upgrade | None:
    """Record how far an upgrade is, and return the record as its machine reports it."""
    performed(RecordUpgrade(str(state), what, facts))
    folder = state.parent
    agent = Agent("", "home_bee", (), f"{folder}/root", f"{folder}/store", f"{folder}/link", str(state))
    found: Upgrade | None = decoded(Upgrade | None, READERS["upgrade"](Look(Observe(agent))))
    return found


def ran(state: Path) -> str:
    return (state / ".paddock/version").read_text().strip()


def test_the_same_version_needs_nothing(state: Path) -> None:
    assert (let(state, "1.0"), ran(state)) == (0, "1.0")


def test_another_version_is_refused_until_the_state_was_saved_for_it(state: Path) -> None:
    assert (let(state, "2.0"), ran(state)) == (UNSAVED, "1.0")
    assert record(state, "saved", **RECORD) == Upgrade("1.0", "2.0", "b", "/backups", 7)
    assert (let(state, "3.0"), ran(state)) == (UNSAVED, "1.0")
    assert (let(state, "2.0"), ran(state)) == (0, "2.0")
    assert let(state, "2.0") == 0
    assert let(state, "1.0") == UNSAVED


def test_a_saved_state_does_not_count_if_the_agent_has_run_since(state: Path) -> None:
    record(state, "saved", **RECORD)
    os.utime(state / ".paddock/holder")
    os.utime(state / ".paddock/upgrade", (2, 2))
    assert let(state, "2.0") == UNSAVED


def test_code_without_a_version_needs_no_saved_state(state: Path) -> None:
    assert (let(state, ""), ran(state)) == (0, "1.0")


def test_going_back_needs_the_state_from_before_in_place(state: Path) -> None:
    record(state, "saved", **RECORD)
    let(state, "2.0")
    found = record(state, "back", why="it did not answer")
    assert found == Upgrade("1.0", "2.0", "b", "/backups", 7, back=True, why="it did not answer")
    assert let(state, "1.0") == UNSAVED
    (state / ".paddock/before").mkdir()
    assert (let(state, "1.0"), ran(state)) == (0, "1.0")


@pytest.mark.parametrize("exchanged", [True, False])
def test_a_swap_that_was_interrupted_counts_once_the_states_are_exchanged(state: Path, *, exchanged: bool) -> None:
    record(state, "saved", **RECORD)
    let(state, "2.0")
    record(state, "back", why="")
    (state / ".paddock/incoming").mkdir()
    inode = (state / ("home" if exchanged else ".paddock/incoming")).stat().st_ino
    (state / ".paddock/incoming.json").write_text(f'{{"inode": {inode}, "undo": false}}')
    assert let(state, "1.0") == (0 if exchanged else UNSAVED)


def test_the_record_follows_an_upgrade_and_the_way_back(state: Path) -> None:
    saved = record(state, "saved", **RECORD)
    assert record(state, "verified") == saved, "the new version has not run yet"
    let(state, "2.0")
    verified = record(state, "verified")
    assert verified
    assert (verified.verified, verified.back) == (True, False)
    assert record(state, "verified") == verified
    back = record(state, "back", why="")
    assert back
    assert (back.verified, back.back) == (True, True)
    assert record(state, "on") == verified
    assert record(state, "ended") == verified, "it does not go back"
    record(state, "back", why="")
    (state / ".paddock/before").mkdir()
    let(state, "1.0")
    assert record(state, "ended") == back, "the state from before the rollback is still there"
    (state / ".paddock/before").rmdir()
    assert record(state, "ended") is None
    assert record(state, "verified") is None


def test_only_root_can_read_the_record(state: Path) -> None:
    record(state, "saved", **RECORD)
    assert (state / ".paddock/upgrade").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("line", ["at=noon", "backup"])
def test_a_record_that_cannot_be_read_is_an_error(state: Path, line: str) -> None:
    record(state, "saved", **RECORD)
    file = state / ".paddock/upgrade"
    kept = [each for each in file.read_text().splitlines() if not each.startswith(line.partition("=")[0])]
    file.write_text("".join(f"{each}\n" for each in [*kept, *([line] if "=" in line else [])]))
    with pytest.raises(Refusal, match="the record of the last upgrade in the agent's state cannot be read"):
        record(state, "on")


def test_the_record_is_not_written_where_the_agent_could_have_made_the_directory(state: Path) -> None:
    (state / ".paddock").chmod(0o755)
    with pytest.raises(Refusal, match="is not a directory that only root can enter"):
        record(state, "saved", **RECORD)
    assert not (state / ".paddock/upgrade").exists()
