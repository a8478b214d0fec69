"""A server that a test reaches over ssh."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sshd import Sshd, sshd


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    """An sshd that accepts the key `id` in the folder of the test."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "id")], check=True)
    (tmp_path / "server").mkdir()
    with sshd(tmp_path / "server", tmp_path / "id.pub", "PermitRootLogin yes\n") as running:
        yield running
