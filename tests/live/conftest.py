"""Fixtures of the live tests: a Proxmox-like node with real containers, and images for engines in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from live.images import bare_root, base_root
from live.node import Node
from live.official_image import official_image
from paddock.demo import lxc_stage
from pvebox.standins.stage import stage_folder


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


@pytest.fixture(scope="session")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Archives of root filesystems for containers, by name."""
    folder = tmp_path_factory.mktemp("roots")
    return {"base": base_root(folder / "base.tar.gz"), "bare": bare_root(folder / "bare.tar.gz")}


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of the stand-in for the official image of Hermes."""
    return official_image(tmp_path_factory.mktemp("official") / "official.tar")
