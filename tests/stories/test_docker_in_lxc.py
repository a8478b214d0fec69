"""Docker in an LXC container: Hermes from its image, with the state on a volume of the pet."""

from __future__ import annotations

import pytest

from live.node import Node
from prepared import in_docker, official_image_archive
from stories.story import Agent, on_volumes, tell, written

pytestmark = pytest.mark.live


def test_the_memory_of_a_container_survives_its_machine(live_node: Node) -> None:
    tree = live_node.file()
    agent = tree["agents"]["hermes"] = in_docker(tree["agents"]["hermes"])
    agent["container"]["archive"] = str(official_image_archive())
    file = written(live_node, tree, "docker-in-lxc")
    tell(Agent(live_node, file, container_of, on_volumes))


def container_of(agent: Agent) -> str:
    """Return the machine and, in it, the container of the agent."""
    return agent.node.shell(agent.status()["address"], "cat /etc/machine-id; docker ps --quiet --no-trunc")
