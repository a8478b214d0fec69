"""Observing a node: its containers with their configurations, and the addresses of Paddock's machines."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from paddock.errors import PaddockError, Refused
from paddock.places.proxmox.claim import Claim
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import Forbidden, NoContainer, Stopped
from paddock.places.proxmox.holder import Holder
from paddock.places.proxmox.mark import Mark, Role
from paddock.places.proxmox.pet import path_in_pet
from paddock.places.proxmox.seen import Capacity, LxcContainer, ProxmoxSeen
from paddock.spec.agent_id import AgentId
from paddock.spec.models import ProxmoxSpec
from paddock.spec.place import BaseSpec

_SETTLE_SECONDS: Final = 120
_TASK_SECONDS: Final = 600
_MAKING_SECONDS: Final = (
    60  # for a container that another token creates; a large restore or the remains of a crash may last longer
)
_MACHINE_TASKS: Final = frozenset(
    {
        "vzcreate",
        "vzclone",
        "vztemplate",
        "vzdestroy",
        "vzstart",
        "vzstop",
        "vzshutdown",
        "vzreboot",
        "move_volume",
        "resize",
    }
)


def observe(
    client: Client, node: ProxmoxSpec, agent: AgentId | None, reporter: Callable[[str], None], holder: Holder
) -> ProxmoxSeen:
    """Observe the node, once no change to the agent's containers is under way.

    An interrupted run leaves its last task running. A container that is being created has a lock and no mark yet,
    so only the list of tasks shows that Paddock is creating it.
    """
    start = time.monotonic()
    told = ""
    half_made: frozenset[int] = frozenset()
    while True:
        task = _own_task(client)
        if task is None:
            seen, without_mark = _read(client, node, holder)
            if without_mark != half_made:
                # Begun since the tasks were read, perhaps for this agent: read tasks and marks again.
                half_made = without_mark
                continue
            locked = next((c for c in seen.containers.values() if c.lock and _concerns(agent, c)), None)
            unknown = half_made if _is_new(agent, seen) and time.monotonic() < start + _MAKING_SECONDS else ()
            if locked is None and not unknown:
                return seen
            if locked and time.monotonic() > start + _SETTLE_SECONDS:
                raise Refused(
                    f"{locked.name} has been locked ({locked.lock}) for {_SETTLE_SECONDS} s, not by a task of Paddock",
                    hint=f"if the node's task list shows no task for it, run there: pct unlock {locked.vmid}",
                )
            made = f"container {min(unknown)} is being created, perhaps for {agent.name}" if unknown and agent else ""
            waiting = f"{locked.name} is locked ({locked.lock})" if locked else made
        else:
            waiting = f"the node is busy with {task}"
            if time.monotonic() > start + _TASK_SECONDS:
                raise PaddockError(
                    f"the node has been busy with {task} for {_TASK_SECONDS} s",
                    hint="check on the node why the task has not ended, and run the same command again afterwards",
                )
        if waiting != told:
            reporter(f"{waiting}; waiting for it to end")
            told = waiting
        time.sleep(0.3)


def _is_new(agent: AgentId | None, seen: ProxmoxSeen) -> bool:
    """Whether the agent lacks a pet or a machine, which a run with another token may be creating."""
    if agent is None:
        return False
    pets = [pet for pet in seen.with_role(Role.PET) if pet.mount_at(path_in_pet(agent))]
    return not pets or not seen.cattle_of(agent)


def _concerns(agent: AgentId | None, container: LxcContainer) -> bool:
    """Whether a container is the agent's machine, its pet, or a template; the locks of others do not matter."""
    if container.mark is None or agent is None:
        return False
    if container.has(Role.PET):
        return container.mount_at(path_in_pet(agent)) is not None
    return container.mark.agent in (agent, None)


def _own_task(client: Client) -> str | None:
    """Return a running task of this token; a token with more privileges also sees the tasks of others."""
    for task in client.get(f"/nodes/{client.node}/tasks", {"source": "active"}):
        own = str(task["upid"]).split(":")[7] == client.user
        if own and task["type"] in _MACHINE_TASKS and "endtime" not in task:
            return f"{task['type']} {task['id']}"
    return None


def look(client: Client, node: ProxmoxSpec, holder: Holder) -> ProxmoxSeen:
    """Observe the node as it is now, whatever is under way."""
    return _read(client, node, holder)[0]


def _read(client: Client, node: ProxmoxSpec, holder: Holder) -> tuple[ProxmoxSeen, frozenset[int]]:
    """Return the observation, and the containers that are being created and have no mark yet."""
    listed = client.get(f"/nodes/{client.node}/lxc")
    with ThreadPoolExecutor(max_workers=8) as pool:
        taken = pool.submit(client.get, "/cluster/resources", {"type": "vm"})
        capacity = pool.submit(_capacity, client)
        base_missing = pool.submit(_base_missing, client, node.base)
        storages = pool.submit(_storages, client)
        found = list(pool.map(lambda row: _container(client, row), listed))
    containers = {container.vmid: container for container in found if container}
    numbers = frozenset(int(row["vmid"]) for row in taken.result())
    elsewhere = {str(row["name"]): str(row["node"]) for row in taken.result() if _on_another(client.node, row)}
    here = {int(row["vmid"]) for row in taken.result() if (row["type"], row["node"]) == ("lxc", client.node)}
    locked = {c.vmid for c in containers.values() if c.lock == "create" and c.mark is None}
    seen = ProxmoxSeen(
        containers,
        numbers | containers.keys(),
        capacity.result(),
        base_missing.result(),
        storages.result(),
        holder.name,
        client.now(),
        elsewhere,
        _ended(containers.values(), holder),
    )
    return seen, frozenset(locked | (here - containers.keys()))


def _ended(containers: Iterable[LxcContainer], holder: Holder) -> frozenset[str]:
    claims = {claim.holder for container in containers if (claim := Claim.from_notes(container.notes))}
    return frozenset(name for name in claims if holder.has_ended(name))


def _on_another(node: str, row: Mapping[str, Any]) -> bool:
    return row["type"] == "lxc" and row["node"] != node and "name" in row


def _base_missing(client: Client, base: BaseSpec) -> bool:
    if base.url is None:
        return False  # without a url Paddock cannot download it; Proxmox reports a missing archive
    listed = client.get(f"/nodes/{client.node}/storage/{base.storage}/content", {"content": "vztmpl"})
    return base.volid not in {row["volid"] for row in listed}


def _storages(client: Client) -> dict[str, str]:
    """Return the directories of the storages that the token may see."""
    return {str(row["storage"]): str(row["path"]) for row in client.get("/storage") if "path" in row}


def _capacity(client: Client) -> Capacity:
    try:
        memory = client.get(f"/nodes/{client.node}/status").get("memory", {}).get("total")
    except Forbidden:
        memory = None
    # Proxmox lists only the storages that the token may see.
    storages = client.get(f"/nodes/{client.node}/storage")
    free = {str(row["storage"]): int(row["avail"]) for row in storages if "avail" in row}
    return Capacity(int(memory) if memory else None, free)


def _container(client: Client, row: dict[str, Any]) -> LxcContainer | None:
    vmid = int(row["vmid"])
    path = f"/nodes/{client.node}/lxc/{vmid}"
    try:
        config = client.get(f"{path}/config")
        mark = Mark.from_notes(str(config.get("description", "")))
        if mark is None or mark.role is not Role.CATTLE or row["status"] != "running":
            return LxcContainer(vmid, str(row["status"]), config)
        waiting = client.get(f"{path}/pending")
        reached_at = address(client, vmid)
    except NoContainer:
        return None  # destroyed since the list was made
    except Stopped:
        return LxcContainer(vmid, "stopped", config)
    pending = frozenset(str(entry["key"]) for entry in waiting if "pending" in entry or "delete" in entry)
    return LxcContainer(vmid, "running", config, reached_at, pending, int(row.get("uptime", 0)))


def address(client: Client, vmid: int) -> str | None:
    """Return an address of a running container that other machines can reach; prefer IPv4."""
    interfaces = client.get(f"/nodes/{client.node}/lxc/{vmid}/interfaces")
    if interfaces is None:
        raise Stopped(f"machine {vmid} is no longer running", hint="its console on the node may show why")
    found = [
        ipaddress.ip_address(entry["ip-address"])
        for interface in interfaces
        for entry in interface.get("ip-addresses", [])
    ]
    reachable = [each for each in found if not (each.is_loopback or each.is_link_local)]
    return str(min(reachable, key=lambda each: each.version)) if reachable else None
