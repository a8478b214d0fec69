"""A fresh node on paper for each test that asks for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from places.node import Node, play_ssh


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    play_ssh(monkeypatch, node)
    return node
