"""proxmoxer drives the sandbox, unmodified."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from levels import slow_proof
from sandbox.clients.installed import Clients, Server

pytestmark = [slow_proof]  # installs the clients

FILE: Final = Path(__file__).with_name("proxmoxer_stories.py")
STORIES: Final = re.findall(r'^def (\w+)\(\) -> None:\n    """', FILE.read_text(), re.MULTILINE)


@pytest.mark.parametrize("story", STORIES)
def test_proxmoxer_gets_the_answers_that_it_expects(clients: Clients, server: Server, story: str) -> None:
    archive = {"PROXMOX_ARCHIVE": str(server.folder / "tiny.tar.gz")}
    done = clients.run("python", str(FILE), story, env={**server.environment(), **archive})
    assert done.returncode == 0, done.stdout + done.stderr
