"""A fresh simulated node for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from places.node import Node, play_ssh


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    node = Node(tmp_path)
    play_ssh(monkeypatch, node)
    yield node
    assert node.waited_in_vain == [], "the test did not meet what it is about"
