"""Whom a claim keeps away: others, as long as its holder may live."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from paddock.places.proxmox.claim import Claim, Holder

NOW = datetime.now(UTC)
HOST = socket.gethostname()


def bars(holder: str, *, minutes: int = 1) -> bool:
    claim = Claim.from_notes(Claim(holder, NOW + timedelta(minutes=minutes)).written_into("notes"))
    assert claim is not None
    return claim.blocks(str(Holder()), NOW)


def test_another_machine_is_kept_away_until_it_ends() -> None:
    assert bars("laptop/1.1")
    assert bars("laptop")
    assert not bars("laptop/1.1", minutes=-1)


def test_a_run_of_this_machine_keeps_others_away_while_it_lives() -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert bars(f"{HOST}/{other.pid}.1")
    other.communicate(b"\n")
    assert not bars(f"{HOST}/{other.pid}.1")


def test_a_run_of_this_process_keeps_others_away_until_it_is_closed() -> None:
    """Two places of one file may be one node."""
    holder = Holder()
    assert bars(str(holder))
    assert not Claim.new(holder, NOW, timedelta(minutes=1)).blocks(str(holder), NOW)
    holder.close()
    assert not bars(str(holder))


@pytest.mark.parametrize(
    "run",
    # The id has no process id in it: all workers must collect the same tests.
    ["", "/", "/x", "/0.1", "/-1.1", "/99999999999999999999.1", pytest.param(f"/{os.getpid()}", id="pid"), "/1.1.1"],
)
def test_what_is_no_run_keeps_nobody_away(run: str) -> None:
    """Claims of before have only a host in them, and anybody may write notes."""
    assert not bars(f"{HOST}{run}")
