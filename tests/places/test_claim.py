"""Which runs a claim blocks, and until when."""

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


def test_a_claim_blocks_runs_on_other_hosts_until_it_expires() -> None:
    assert bars("laptop/1.1")
    assert bars("laptop")
    assert not bars("laptop/1.1", minutes=-1)


def test_a_claim_of_this_host_blocks_while_its_process_is_alive() -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert bars(f"{HOST}/{other.pid}.1")
    other.communicate(b"\n")
    assert not bars(f"{HOST}/{other.pid}.1")


def test_a_claim_of_this_process_blocks_until_its_holder_is_closed() -> None:
    """Two places of one file may be the same node."""
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
def test_a_claim_without_a_process_of_this_host_does_not_block(run: str) -> None:
    """Older claims name only a host, and anyone may write notes."""
    assert not bars(f"{HOST}{run}")
