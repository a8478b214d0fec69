"""Containers that are created through the API of the node, without Paddock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from live.node import ROOT, Node, wait_for
from paddock.base.secret import Secret
from paddock.channels.ssh import scan_host_key
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.node.reading import address


def api_client(node: Node) -> Client:
    """Return a client of the node's API that may do everything."""
    place = node.file()["places"]["box"]["proxmox"]
    trust = tls.context(place["url"], Path(place["ca"]), None)
    return Client(place["url"], place["node"], Secret(node.token(ROOT)), trust)


def container(node: Node, api: Client, vmid: int, **params: Any) -> str:
    """Create and start a container, and return its address once ssh answers there."""
    named: dict[str, Any] = {"vmid": vmid, "hostname": f"by-hand-{vmid}"}
    api.task("POST", f"/nodes/{api.node}/lxc", {**container_parameters(node), **named, **params})
    api.task("POST", f"/nodes/{api.node}/lxc/{vmid}/status/start")
    wait_for(lambda: (found := address(api, vmid)) is not None and scan_host_key(found) is not None)
    found = address(api, vmid)
    assert found
    return found


def container_parameters(node: Node) -> dict[str, Any]:
    """Parameters of a new container, except its vmid and name."""
    place = node.file()["places"]["box"]["proxmox"]
    return {
        "ostemplate": place["base"],
        "unprivileged": 1,
        "features": "nesting=1",
        "rootfs": f"{place['storage']}:4",
        "memory": 1024,
        "net0": f"name=eth0,bridge={place['bridge']},ip=dhcp",
        "ssh-public-keys": (node.stage.folder / "id_ed25519.pub").read_text(),
    }


def reboot(api: Client, vmid: int) -> None:
    """Restart a container, and wait until ssh answers again."""
    api.task("POST", f"/nodes/{api.node}/lxc/{vmid}/status/reboot")
    wait_for(lambda: (found := address(api, vmid)) is not None and scan_host_key(found) is not None)


def destroy(api: Client, vmid: int) -> None:
    api.task("DELETE", f"/nodes/{api.node}/lxc/{vmid}?force=1")
