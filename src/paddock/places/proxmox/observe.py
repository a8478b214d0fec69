"""Reading a node: one list, one configuration per container, and the addresses of what is ours."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from paddock.errors import Refused
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import Forbidden, NoContainer
from paddock.places.proxmox.mark import Mark, Role
from paddock.places.proxmox.seen import Container, ProxmoxSeen, Room
from paddock.spec.models import ProxmoxSpec
from paddock.spec.place import BaseSpec

_SETTLE_SECONDS: Final = 120
_MACHINE_TASKS: Final = frozenset({"vzcreate", "vzdestroy", "vzstart", "vzstop", "vzshutdown", "vzreboot"})


def observe(client: Client, node: ProxmoxSpec, story: Callable[[str], None]) -> ProxmoxSeen:
    """Return what is on the node, once nothing of ours is in the middle of a change.

    A run that was cut off leaves its last task behind. Until a create has ended, the container shows nothing but a
    lock: no mark yet that would tell whose it is. The task tells.
    """
    end = time.monotonic() + _SETTLE_SECONDS
    told = ""
    while True:
        task = _own_task(client)
        if task is None:
            seen = _read(client, node)
            locked = next((c for c in seen.containers.values() if c.mark and c.lock), None)
            if locked is None:
                return seen
            if time.monotonic() > end:
                raise Refused(
                    f"{locked.name} has been locked ({locked.lock}) for {_SETTLE_SECONDS} s, and no task works on it",
                    hint=f"run on the node: pct unlock {locked.vmid}",
                )
            waiting = f"{locked.name} is locked ({locked.lock})"
        else:
            waiting = f"the node is busy with {task}"
        if waiting != told:
            story(f"{waiting}; waiting for it to end")
            told = waiting
        time.sleep(0.3)


def _own_task(client: Client) -> str | None:
    """A running task that this token started: a token without more rights sees no others."""
    for task in client.get(f"/nodes/{client.node}/tasks", {"source": "active"}):
        if task["type"] in _MACHINE_TASKS and "endtime" not in task:
            return f"{task['type']} {task['id']}"
    return None


def _read(client: Client, node: ProxmoxSpec) -> ProxmoxSeen:
    listed = client.get(f"/nodes/{client.node}/lxc")
    with ThreadPoolExecutor(max_workers=8) as pool:
        taken = pool.submit(client.get, "/cluster/resources", {"type": "vm"})
        room = pool.submit(_room, client, node.storage)
        base_missing = pool.submit(_base_missing, client, node.base)
        found = list(pool.map(lambda row: _container(client, row), listed))
    containers = {container.vmid: container for container in found if container}
    numbers = frozenset(int(row["vmid"]) for row in taken.result())
    return ProxmoxSeen(
        containers,
        numbers | containers.keys(),
        room.result(),
        base_missing.result(),
        socket.gethostname(),
        datetime.now(UTC),
    )


def _base_missing(client: Client, base: BaseSpec) -> bool:
    if base.url is None:
        return False  # the file says that it is there; Proxmox says so if it is not
    listed = client.get(f"/nodes/{client.node}/storage/{base.storage}/content", {"content": "vztmpl"})
    return base.volid not in {row["volid"] for row in listed}


def _room(client: Client, storage: str) -> Room:
    def read(path: str) -> dict[str, Any]:
        try:
            return dict(client.get(f"/nodes/{client.node}/{path}"))
        except Forbidden:
            return {}

    memory = read("status").get("memory", {}).get("total")
    free = read(f"storage/{storage}/status").get("avail")
    return Room(int(memory) if memory else None, int(free) if free is not None else None)


def _container(client: Client, row: dict[str, Any]) -> Container | None:
    vmid = int(row["vmid"])
    path = f"/nodes/{client.node}/lxc/{vmid}"
    try:
        config = client.get(f"{path}/config")
        mark = Mark.from_notes(str(config.get("description", "")))
        if mark is None or mark.role is not Role.CATTLE or row["status"] != "running":
            return Container(vmid, str(row["status"]), config)
        waiting = client.get(f"{path}/pending")
    except NoContainer:
        return None  # destroyed since the list was made
    pending = frozenset(str(entry["key"]) for entry in waiting if "pending" in entry or "delete" in entry)
    return Container(vmid, "running", config, address(client, vmid), pending, int(row.get("uptime", 0)))


def address(client: Client, vmid: int) -> str | None:
    """Return an address of a running container that other machines can reach, IPv4 before IPv6."""
    found = [
        ipaddress.ip_address(entry["ip-address"])
        for interface in client.get(f"/nodes/{client.node}/lxc/{vmid}/interfaces") or []
        for entry in interface.get("ip-addresses", [])
    ]
    reachable = [each for each in found if not (each.is_loopback or each.is_link_local)]
    return str(min(reachable, key=lambda each: each.version)) if reachable else None
