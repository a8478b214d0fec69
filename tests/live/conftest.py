"""A node in a box with real containers, and a stand-in model on its bridge, shared by the live tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from live.stage import Node
from paddock.demo import lxc_stage


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    folder = Path(tempfile.mkdtemp(prefix="paddock-live-"))
    try:
        with lxc_stage(folder) as stage:
            yield Node(stage)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def agent(node: Node) -> Node:
    """The node with hermes up on it."""
    node.paddock("up")
    return node
