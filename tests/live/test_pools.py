"""The daily token runs an agent on real containers, and Proxmox refuses it everything beyond that."""

from __future__ import annotations

import ssl
from typing import Any

import httpx
import pytest

from live.node import DAILY, ROOT, Node, wait_for
from live.test_pet_and_cattle import Web
from live.test_pet_and_cattle import web as web

pytestmark = pytest.mark.live


def client(node: Node, token: str) -> httpx.Client:
    place = node.file()["places"]["box"]["proxmox"]
    trust = ssl.create_default_context(cafile=str(node.stage.folder / place["ca"]))
    headers = {"Authorization": f"PVEAPIToken={node.token(token)}"}
    return httpx.Client(base_url=f"{place['url']}/api2/json", headers=headers, verify=trust)


def test_the_daily_token_runs_an_agent_and_may_do_nothing_else(web: Web) -> None:
    node = web.node
    web.paddock("up")  # with the setup token
    web.write_fact("one")
    daily = Web(node.with_environment(PVE_TOKEN=node.token(DAILY)), web.name)
    assert "nothing to do" in daily.paddock("up")
    daily.paddock("cycle")
    daily.paddock("down")
    daily.paddock("up")
    assert daily.fact() == "one"
    assert daily.paddock("doctor").count("✗") == 0

    machine, pet = int(daily.status()["machine"]), int(daily.status()["state"].partition("vm-")[2].partition("-")[0])
    with client(node, ROOT) as root, client(node, DAILY) as thief:
        listed = root.get("/nodes/pve/lxc").json()["data"]
        pools = root.get("/pools", params={"poolid": "paddock"}).json()["data"][0]["members"]
        assert machine in {row["vmid"] for row in pools}
        outside = max(row["vmid"] for row in listed) + 50
        made = root.post("/nodes/pve/lxc", data=_somebody(node, outside))
        assert made.status_code == 200, made.text
        wait_for(lambda: "lock" not in root.get(f"/nodes/pve/lxc/{outside}/config").json()["data"])
        try:
            refused = {
                "unprotect": thief.put(f"/nodes/pve/lxc/{pet}/config", data={"protection": 0}),
                "notes": thief.put(f"/nodes/pve/lxc/{pet}/config", data={"description": "mine"}),
                "delete": thief.delete(f"/nodes/pve/lxc/{pet}"),
                "snapshot": thief.post(f"/nodes/pve/lxc/{pet}/snapshot", data={"snapname": "s"}),
                "start": thief.post(f"/nodes/pve/lxc/{pet}/status/start"),
                "resize": thief.put(f"/nodes/pve/lxc/{pet}/resize", data={"disk": "mp0", "size": "+1G"}),
                "create outside": thief.post("/nodes/pve/lxc", data=_somebody(node, outside + 1)),
                "change outside": thief.put(f"/nodes/pve/lxc/{outside}/config", data={"memory": 512}),
                "stop outside": thief.post(f"/nodes/pve/lxc/{outside}/status/stop"),
                "delete outside": thief.delete(f"/nodes/pve/lxc/{outside}"),
                "read outside": thief.get(f"/nodes/pve/lxc/{outside}/config"),
                "mount from outside": thief.put(
                    f"/nodes/pve/lxc/{machine}/config",
                    data={"mp5": f"local-lvm:vm-{outside}-disk-0,mp=/steal"},
                ),
                "take into the pool": thief.put("/pools", data={"poolid": "paddock", "vms": outside}),
            }
            assert {name: answer.status_code for name, answer in refused.items()} == dict.fromkeys(refused, 403)
        finally:
            _destroy(root, outside)

    daily.paddock("down")
    assert "lacks privileges" in daily.paddock("forget", web.name, "--name", web.name, fails=True)


def _somebody(node: Node, vmid: int) -> dict[str, Any]:
    base = node.file()["places"]["box"]["proxmox"]["base"]
    return {"vmid": vmid, "ostemplate": base, "rootfs": "local-lvm:1", "unprivileged": 1, "hostname": "somebody"}


def _destroy(root: httpx.Client, vmid: int) -> None:
    wait_for(lambda: root.delete(f"/nodes/pve/lxc/{vmid}").status_code == 200)
