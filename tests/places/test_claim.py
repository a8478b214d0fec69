"""Which runs a claim blocks, and until when."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paddock.base.computer import state_folder
from paddock.places.proxmox.node.holder import Holder
from paddock.places.proxmox.node.notes import Claim

NOW = datetime.now(UTC)
MINUTE = timedelta(minutes=1)


def blocks(claim: Claim, holder: Holder, now: datetime = NOW) -> bool:
    read = Claim.from_notes(claim.written_into("notes"))
    assert read == claim
    return read.blocks(holder.name, now, holder.has_ended)


def alive() -> list[str]:
    return sorted(path.name for path in (state_folder() / "alive").iterdir())


def elsewhere(monkeypatch: pytest.MonkeyPatch, home: Path) -> Holder:
    """A run of another computer."""
    with monkeypatch.context() as there:
        there.setenv("XDG_STATE_HOME", str(home))
        return Holder()


@pytest.mark.parametrize("name", ["laptop/ab12cd34", "laptop", "laptop/123.1", "laptop/../../x", "laptop/", "/"])
def test_a_claim_blocks_runs_on_other_computers_until_it_expires(name: str) -> None:
    claim = Claim(name, NOW + MINUTE)
    assert blocks(claim, Holder())
    assert not blocks(claim, Holder(), NOW + MINUTE)


def test_a_run_that_only_reads_leaves_no_file() -> None:
    Holder().close()
    assert not (state_folder() / "alive").exists()


def test_a_claim_of_this_process_blocks_until_its_holder_is_closed() -> None:
    """Two places of one file may be the same node."""
    one, other = Holder(), Holder()
    claim = one.claim(NOW, MINUTE)
    assert blocks(claim, other)
    assert not blocks(claim, one)
    one.close()
    assert not blocks(claim, other)


CLAIM = """
from datetime import UTC, datetime, timedelta
from paddock.places.proxmox.node.holder import Holder
holder = Holder()
print(holder.claim(datetime.now(UTC), timedelta(hours=1)).holder, flush=True)
input()
"""


@pytest.mark.parametrize("end", ["", "kill"])
def test_a_claim_of_another_process_blocks_until_that_process_ends(end: str) -> None:
    other = subprocess.Popen([sys.executable, "-c", CLAIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout
    claim = Claim(other.stdout.readline().strip(), NOW + MINUTE)
    assert blocks(claim, Holder())
    if end:
        other.kill()
    other.communicate("\n")
    assert not blocks(claim, Holder())


def test_two_computers_with_one_host_name_are_not_confused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same process has the claims of both, so the process id is the same too."""
    here, there = Holder(), elsewhere(monkeypatch, tmp_path / "there")
    assert here.name.partition("/")[0] == there.name.partition("/")[0]
    assert here.name != there.name
    claim = there.claim(NOW, MINUTE)
    there.close()
    assert blocks(claim, here), "its end is not known here"
    assert not blocks(claim, elsewhere(monkeypatch, tmp_path / "there"))


def test_files_of_dead_runs_are_removed_when_their_claims_have_expired() -> None:
    """Without its file, the claim of a dead run would count again until it expires."""
    dead, living = Holder(), Holder()
    claim = dead.claim(NOW, MINUTE)
    living.claim(NOW, MINUTE)
    dead.close()
    assert len(alive()) == 2
    Holder().claim(NOW, MINUTE)
    assert not blocks(claim, living)
    (state_folder() / "alive" / "other-file").touch()
    long_ago = time.time() - 2 * 24 * 3600
    for name in alive():
        os.utime(state_folder() / "alive" / name, (long_ago, long_ago))
    last = Holder()
    last.claim(NOW, MINUTE)
    names = [holder.name.rpartition("/")[2] for holder in (living, last)]
    assert set(names) <= set(alive())
    assert dead.name.rpartition("/")[2] not in alive()
    assert "other-file" in alive()


def test_a_run_locks_its_file_again_if_it_was_removed_before_it_was_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[Path] = []
    flock = fcntl.flock

    def racing(file: int, how: int) -> None:
        if not removed:
            [path] = (state_folder() / "alive").iterdir()
            removed.append(path)
            path.unlink()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", racing)
    one = Holder()
    one.claim(NOW, MINUTE)
    assert [path.name for path in removed] == alive()
    assert not Holder().has_ended(one.name)


def test_runs_may_ask_about_one_another_at_once() -> None:
    """Asking takes a lock too, which must not look like the lock of a living run."""
    dead = Holder()
    dead.claim(NOW, MINUTE)
    dead.close()
    found: list[bool] = []
    ask = lambda: found.extend(Holder().has_ended(dead.name) for _ in range(200))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 800


def test_a_run_that_cannot_write_its_file_still_claims(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    one = Holder()
    assert blocks(one.claim(NOW, MINUTE), Holder())
    one.close()
