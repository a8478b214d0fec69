"""Another version of the code gets a state only after the state was saved, and the record tells how far it is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from paddock.kinds.workload import Paths
from paddock.plan.version import Upgrade
from paddock.runtimes import machine
from paddock.runtimes.contract import UNSAVED
from paddock.runtimes.sent import text

RECORD = ("from=1.0", "to=2.0", "backup=b", "where=/backups", "at=7")


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
    """Ask whether a version of the code may touch the state; return the exit code."""
    program = (
        f"set -eu; umask 077\nroot=$1 STATE=$2 STORE=$1/store VERSION=$3\n{text('state/saved.sh')}\nexpect_saved_state"
    )
    root = state.parent / "root"
    root.mkdir(exist_ok=True)
    return subprocess.run(["sh", "-c", program, "sh", str(root), str(state), version], timeout=30).returncode


def record(state: Path, *words: str) -> Upgrade | None:
    """Record how far an upgrade is, and return the record."""
    paths = Paths.of(code="/c", etc="/e", state_link="/l", state=str(state))
    subprocess.run(machine.record_upgrade(paths, *words), check=True, timeout=30)
    file = state / ".paddock/upgrade"
    return Upgrade.from_lines(file.read_text().splitlines()) if file.exists() else None


def ran(state: Path) -> str:
    return (state / ".paddock/version").read_text().strip()


def test_the_same_version_needs_nothing(state: Path) -> None:
    assert (let(state, "1.0"), ran(state)) == (0, "1.0")


def test_another_version_is_refused_until_the_state_was_saved_for_it(state: Path) -> None:
    assert (let(state, "2.0"), ran(state)) == (UNSAVED, "1.0")
    assert record(state, "saved", *RECORD) == Upgrade("1.0", "2.0", "b", "/backups", 7)
    assert (let(state, "3.0"), ran(state)) == (UNSAVED, "1.0")
    assert (let(state, "2.0"), ran(state)) == (0, "2.0")
    assert let(state, "2.0") == 0
    assert let(state, "1.0") == UNSAVED


def test_a_saved_state_does_not_count_if_the_agent_has_run_since(state: Path) -> None:
    record(state, "saved", *RECORD)
    os.utime(state / ".paddock/holder")
    os.utime(state / ".paddock/upgrade", (2, 2))
    assert let(state, "2.0") == UNSAVED


def test_code_without_a_version_needs_no_saved_state(state: Path) -> None:
    assert (let(state, ""), ran(state)) == (0, "1.0")


def test_going_back_needs_the_state_from_before_in_place(state: Path) -> None:
    record(state, "saved", *RECORD)
    let(state, "2.0")
    found = record(state, "back", "it did not answer")
    assert found == Upgrade("1.0", "2.0", "b", "/backups", 7, back=True, why="it did not answer")
    assert let(state, "1.0") == UNSAVED
    (state / ".paddock/before").mkdir()
    assert (let(state, "1.0"), ran(state)) == (0, "1.0")


@pytest.mark.parametrize("exchanged", [True, False])
def test_a_swap_that_was_interrupted_counts_once_the_states_are_exchanged(state: Path, *, exchanged: bool) -> None:
    record(state, "saved", *RECORD)
    let(state, "2.0")
    record(state, "back", "")
    (state / ".paddock/incoming").mkdir()
    inode = (state / ("home" if exchanged else ".paddock/incoming")).stat().st_ino
    (state / ".paddock/incoming.json").write_text(f'{{"inode": {inode}, "undo": false}}')
    assert let(state, "1.0") == (0 if exchanged else UNSAVED)


def test_the_record_follows_an_upgrade_and_the_way_back(state: Path) -> None:
    saved = record(state, "saved", *RECORD)
    assert record(state, "verified") == saved, "the new version has not run yet"
    let(state, "2.0")
    verified = record(state, "verified")
    assert verified
    assert (verified.verified, verified.back) == (True, False)
    assert record(state, "verified") == verified
    back = record(state, "back", "")
    assert back
    assert (back.verified, back.back) == (True, True)
    assert record(state, "on") == verified
    assert record(state, "ended") == verified, "it does not go back"
    record(state, "back", "")
    (state / ".paddock/before").mkdir()
    let(state, "1.0")
    assert record(state, "ended") == back, "the state from before the rollback is still there"
    (state / ".paddock/before").rmdir()
    assert record(state, "ended") is None
    assert record(state, "verified") is None


def test_only_root_can_read_the_record(state: Path) -> None:
    record(state, "saved", *RECORD)
    assert (state / ".paddock/upgrade").stat().st_mode & 0o777 == 0o600
