"""Fixtures of the live tests: a Proxmox-like node with real containers, and a stand-in model on its bridge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from live.node import Node
from paddock.demo import lxc_stage
from pvebox.stage import stage_folder


@pytest.fixture(scope="session")
def node(live_node: Node) -> Node:
    return live_node


@pytest.fixture
def new_node() -> Iterator[Node]:
    """A node of this test alone: it has no templates, and every number is free."""
    with stage_folder() as folder, lxc_stage(folder) as stage:
        yield Node(stage)


@pytest.fixture
def agent(node: Node) -> Node:
    """The node, with the agent hermes up."""
    node.paddock("up")
    return node
