"""A Linux host with systemd, over ssh: Hermes as a hardened service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from live.manual import api_client, container, destroy
from live.node import Node
from live.test_lease import by_ssh
from stories.story import MEMORY, Agent, learn, recreate, restore, written

pytestmark = pytest.mark.live

VMID = 290
# Another agent has the same code. So `down` leaves the code, and it is installed once for the whole story.
NEIGHBOUR = """
cd /opt/paddock && mkdir neighbour
for tree in .store/*; do ln -s "../$tree" neighbour/; done
"""


@pytest.fixture
def host(live_node: Node) -> Iterator[str]:
    api = api_client(live_node)
    yield container(live_node, api, VMID)
    destroy(api, VMID)


def test_the_memory_of_a_service_survives_its_installation(live_node: Node, host: str) -> None:
    def process(agent: Agent) -> str:
        return agent.node.shell(host, "systemctl show -p MainPID,ExecMainStartTimestamp paddock-home_hermes.gateway")

    def memory(agent: Agent) -> str:
        return agent.node.shell(host, f"cat /var/lib/paddock/hermes/{MEMORY} 2>/dev/null || true")

    agent = Agent(live_node, written(live_node, by_ssh(live_node, host), "systemd-host"), process, memory)
    learn(agent)
    live_node.shell(host, NEIGHBOUR)
    recreate(agent)
    restore(agent)
