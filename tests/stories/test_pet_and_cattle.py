"""Pet and cattle on Proxmox: Hermes under systemd in LXC containers."""

from __future__ import annotations

import pytest

from live.node import Node
from stories.story import Agent, on_volumes, tell, written

pytestmark = pytest.mark.live


def test_the_memory_survives_cattle_and_pet(live_node: Node) -> None:
    file = written(live_node, live_node.file(), "pet-and-cattle")
    tell(Agent(live_node, file, lambda agent: agent.node.machine("cat /etc/machine-id"), on_volumes))
