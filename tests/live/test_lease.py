"""One writer: two machines with one state, whatever brought them there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from live.stage import Node, wait_for
from paddock.demo import FACT, QUESTION
from paddock.guests.ssh import scan_host_key
from paddock.places.proxmox import tls
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.observe import address
from paddock.secret import Secret

pytestmark = pytest.mark.live


@pytest.fixture
def api(node: Node) -> Client:
    """The node's API, as a person with a token uses it."""
    place = node.file()["places"]["box"]["proxmox"]
    trust = tls.context(place["url"], Path(place["ca"]), None)
    return Client(place["url"], place["node"], Secret(node.stage.environment["PVE_TOKEN"]), trust)


def container(node: Node, api: Client, vmid: int, **params: Any) -> str:
    """Create and start a container by hand; returns its address once ssh answers there."""
    place = node.file()["places"]["box"]["proxmox"]
    key = (node.stage.folder / "id_ed25519.pub").read_text()
    base = {
        "vmid": vmid,
        "ostemplate": place["base"],
        "hostname": f"by-hand-{vmid}",
        "unprivileged": 1,
        "features": "nesting=1",
        "rootfs": f"{place['storage']}:4",
        "memory": 1024,
        "net0": f"name=eth0,bridge={place['bridge']},ip=dhcp",
        "ssh-public-keys": key,
    }
    api.task("POST", f"/nodes/{api.node}/lxc", {**base, **params})
    api.task("POST", f"/nodes/{api.node}/lxc/{vmid}/status/start")
    wait_for(lambda: (found := address(api, vmid)) is not None and scan_host_key(found) is not None)
    found = address(api, vmid)
    assert found
    return found


def destroy(api: Client, vmid: int) -> None:
    api.task("DELETE", f"/nodes/{api.node}/lxc/{vmid}?force=1")


def by_ssh(node: Node, where: str) -> dict[str, Any]:
    """The same agents' file, with another place."""
    tree = node.file()
    key = str(node.stage.folder / "id_ed25519")
    tree["places"] = {"box": {"host": {"address": where, "key": key, "host_key": scan_host_key(where)}}}
    return tree


def test_a_second_machine_on_the_same_state_does_not_start_its_agent(agent: Node, api: Client) -> None:
    agent.ask(f"Remember: {FACT}")
    status = agent.status()
    where = container(agent, api, 201, mp0=f"{status['state']},mp=/var/lib/paddock/hermes")
    try:
        refused = agent.paddock("plan", fails=True).stdout
        assert "container 201 (by-hand-201) also mounts the state volume" in refused
        path = str(agent.write("thief.yaml", by_ssh(agent, where)))
        told = agent.paddock("up", "-f", path, fails=True).stderr
        assert f"the state of hermes is held by {status['lease']}" in told
        assert "inactive" in agent.shell(where, "systemctl is-active paddock-hermes-gateway || true")
        assert agent.ask(QUESTION) == FACT
    finally:
        destroy(api, 201)
    assert agent.paddock("plan").stdout == "hermes: nothing to do\n"


def test_a_waiting_machine_starts_when_the_holder_has_gone(agent: Node, api: Client) -> None:
    status = agent.status()
    where = container(agent, api, 202, mp0=f"{status['state']},mp=/var/lib/paddock/hermes")
    try:
        path = str(agent.write("thief.yaml", by_ssh(agent, where)))
        agent.paddock("up", "-f", path, fails=True)
        agent.machine("systemctl stop paddock-hermes-lease")
        wait_for(lambda: agent.shell(where, "systemctl is-active paddock-hermes-gateway || true").strip() == "active")
        told = agent.machine(
            "systemctl start paddock-hermes-lease 2>&1; journalctl -u paddock-hermes-lease -n 5 -o cat"
        )
        assert "the state of hermes is held by by-hand-202" in told
    finally:
        destroy(api, 202)
    agent.paddock("up")
