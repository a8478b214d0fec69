"""Fixtures of the hostile tests: a machine to attack, and a simulated node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.ground import Machine, machine
from places.node import Node, play_ssh


@pytest.fixture
def ground() -> Iterator[Machine]:
    """Make a machine to attack, removed when the test ends."""
    with machine() as made:
        yield made


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Make a simulated node whose machines answer to ssh."""
    node = Node(tmp_path)
    play_ssh(monkeypatch, node)
    return node
