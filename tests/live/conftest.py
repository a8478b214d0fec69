"""Fixtures of the live tests: a Proxmox-like node with real containers, and a stand-in model on its bridge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from live.node import Node
from paddock.demo import lxc_stage, stage_folder


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    with stage_folder() as folder, lxc_stage(folder) as stage:
        yield Node(stage)


@pytest.fixture
def agent(node: Node) -> Node:
    """The node, with the agent hermes up."""
    node.paddock("up")
    return node
