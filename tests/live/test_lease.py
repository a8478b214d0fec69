"""The lease: of two machines that mount one state, only one runs the agent."""

from __future__ import annotations

from typing import Any

import pytest

from levels import slow_proof
from live.manual import api_client, container, destroy
from live.node import Node, wait_for
from paddock.channels.ssh import scan_host_key
from paddock.demo import FACT, QUESTION
from paddock.places.proxmox.api.client import Client

pytestmark = pytest.mark.live


@pytest.fixture
def api(node: Node) -> Client:
    return api_client(node)


def by_ssh(node: Node, where: str) -> dict[str, Any]:
    """The agents of the node's file, with a host over ssh as their place."""
    tree = node.file()
    key = str(node.stage.folder / "id_ed25519")
    tree["places"] = {"box": {"host": {"address": where, "key": key, "host_key": scan_host_key(where)}}}
    return tree


def test_a_second_machine_on_the_same_state_does_not_start_its_agent(agent: Node, api: Client) -> None:
    agent.ask(f"Remember: {FACT}")
    status = agent.status()
    where = container(agent, api, 201, pool="paddock", mp0=f"{status['state']},mp=/var/lib/paddock/hermes")
    try:
        refused = agent.paddock("plan", fails=True).stdout
        assert "container 201 (by-hand-201) also mounts local-lvm:vm-" in refused
        path = str(agent.write("thief.yaml", by_ssh(agent, where)))
        told = agent.paddock("up", "-f", path, fails=True).stderr
        assert f"the state of hermes is held by {status['lease']}" in told
        assert "inactive" in agent.shell(where, "systemctl is-active paddock-home_hermes.gateway || true")
        assert agent.ask(QUESTION) == FACT
    finally:
        destroy(api, 201)
    assert agent.paddock("plan").stdout == "hermes: nothing to do\n"


@slow_proof
def test_a_waiting_machine_starts_when_the_lease_is_released(agent: Node, api: Client) -> None:
    status = agent.status()
    where = container(agent, api, 202, pool="paddock", mp0=f"{status['state']},mp=/var/lib/paddock/hermes")
    try:
        path = str(agent.write("thief.yaml", by_ssh(agent, where)))
        agent.paddock("up", "-f", path, fails=True)
        agent.machine("systemctl stop paddock-home_hermes.lease")
        wait_for(
            lambda: agent.shell(where, "systemctl is-active paddock-home_hermes.gateway || true").strip() == "active"
        )
        told = agent.machine(
            "systemctl start paddock-home_hermes.lease 2>&1; journalctl -u paddock-home_hermes.lease -n 5 -o cat"
        )
        assert "the state of hermes is held by by-hand-202" in told
    finally:
        destroy(api, 202)
    agent.paddock("up")
