"""The second newest version of Hermes on a machine of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from levels import slow_proof
from live.node import Node
from paddock.demo import FACT, QUESTION

pytestmark = [pytest.mark.live, slow_proof]


@pytest.fixture
def older(node: Node) -> Iterator[str]:
    """A file with one agent, and the agent up."""
    tree = node.file()
    tree["places"]["box"]["proxmox"]["template"] = "none"
    tree["agents"] = {"older": {**tree["agents"]["hermes"], "version": "0.18.2"}}
    path = str(node.write("older.yaml", tree))
    try:
        node.paddock("up", "-f", path)
        yield path
    finally:
        node.paddock("down", "-f", path)
        node.paddock("forget", "older", "--name", "older", "-f", path)


def test_it_answers_remembers_and_status_shows_what_runs(node: Node, older: str) -> None:
    assert FACT in node.paddock("ask", "older", f"Remember: {FACT}", "-f", older).stdout
    node.paddock("restart", "older", "-f", older)
    assert node.paddock("ask", "older", QUESTION, "-f", older).stdout.strip() == FACT
    node.paddock("verify", "-f", older)
    newer = json.loads(node.paddock("status", "--json", "-f", older, "--set", "agents.older.version=0.19.0").stdout)[0]
    assert (newer["version"], newer["version_in_file"], newer["health"]) == ("0.18.2", "0.19.0", "ok")
    assert re.fullmatch(r"[0-9]+ steps?", newer["drift"])
