"""Drills of real backups: a throwaway copy recalls a fact and does not act, and nothing of it stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live.node import Node
from paddock.demo import FACT

pytestmark = pytest.mark.live


def with_backup(node: Node, **more: Any) -> str:
    """Write a file in which the agent has backups; return its path."""
    tree = node.file()
    tree["agents"]["hermes"] |= {"backup": {"to": "./drilled"}, **more}
    return str(node.write("drilled.yaml", tree))


def containers(node: Node) -> set[str]:
    """Return the names of all containers of the node but templates."""
    listed = json.loads((node.stage.folder / "sandbox/cluster.json").read_text())
    return set(listed)


def test_a_drill_passes_and_leaves_nothing(agent: Node) -> None:
    path = with_backup(agent)
    agent.paddock("ask", "hermes", f"Remember: {FACT}", "-f", path)
    agent.paddock("backup", "hermes", "-f", path)
    print(agent.paddock("drill", "hermes", "--dry-run", "-f", path).stdout)
    done = agent.paddock("drill", "hermes", "-f", path)
    print(done.stderr, done.stdout)
    assert "and the agent recalled a fact of it" in done.stdout
