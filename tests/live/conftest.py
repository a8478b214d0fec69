"""Fixtures of the live tests: a Proxmox-like node with real containers, and a stand-in model on its bridge."""

from __future__ import annotations

import pytest

from live.node import Node


@pytest.fixture(scope="session")
def node(live_node: Node) -> Node:
    return live_node


@pytest.fixture
def agent(node: Node) -> Node:
    """The node, with the agent hermes up."""
    node.paddock("up")
    return node
