"""Observing a node: its containers with their configurations, and the addresses of Paddock's machines."""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from paddock.errors import PaddockError, Refused
from paddock.places import MachineWant
from paddock.places.proxmox import numbering, pools
from paddock.places.proxmox.claim import Claim
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import ApiError, Forbidden, NoContainer, Stopped
from paddock.places.proxmox.holder import Holder
from paddock.places.proxmox.mark import Role
from paddock.places.proxmox.pet import agent_of, path_in_pet
from paddock.places.proxmox.seen import Capacity, Hidden, LxcContainer, Pool, ProxmoxSeen
from paddock.spec.agent_id import AgentId
from paddock.spec.models import ProxmoxSpec
from paddock.spec.place import BaseSpec

_SETTLE_SECONDS: Final = 120
_TASK_SECONDS: Final = 600
_VMID: Final = re.compile(r"\b\d+", re.ASCII)
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
    client: Client, node: ProxmoxSpec, want: MachineWant | None, reporter: Callable[[str], None], holder: Holder
) -> ProxmoxSeen:
    """Observe the node, once no change to the agent's containers is under way.

    An interrupted run leaves its last task running. A container that is being created has a lock and no mark yet,
    so only the list of tasks shows that Paddock is creating it.
    """
    start = time.monotonic()
    agent = want.id if want else None
    told = ""
    half_made: frozenset[int] = frozenset()
    while True:
        tasks = list(_own_tasks(client))
        seen, without_mark = _read(client, node, want, holder)
        task = next((task for task in tasks if want and _may_change(want, task, seen)), None)
        if task is None:
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
    # A container joins its pool when it is complete; until then its mark does not count.
    mark = container.noted_mark if container.lock == "create" else container.mark
    if mark is None or agent is None:
        return False
    if mark.role in (Role.SPARE, Role.READER):
        return False  # restoring a large backup takes long, and nobody but the run that reads it waits for it
    if mark.role is Role.PET:
        # A backup only reads the pet, and the run that asked for it may have died: the agent must not wait for it.
        return container.lock != "backup" and container.mount_at(path_in_pet(agent)) is not None
    return mark.agent in (agent, None)


def _own_tasks(client: Client) -> Iterator[_Task]:
    """Yield the running tasks of this token; a token with more privileges also sees the tasks of others."""
    for task in client.get(f"/nodes/{client.node}/tasks", {"source": "active"}):
        own = str(task["upid"]).split(":")[7] == client.user
        if own and task["type"] in _MACHINE_TASKS and "endtime" not in task:
            yield _Task(str(task["type"]), str(task["id"]))


@dataclass(frozen=True)
class _Task:
    what: str  # vzcreate, vzshutdown, …
    id: str  # a number; of a volume that is moved, two numbers with keys

    def __str__(self) -> str:
        return f"{self.what} {self.id}"

    @property
    def numbers(self) -> set[int]:
        return {int(number) for number in _VMID.findall(self.id)}


def _may_change(want: MachineWant, task: _Task, seen: ProxmoxSeen) -> bool:
    """Whether a task may change what the agent has. Runs of other agents with the same token need no waiting.

    An agent that lacks a pet or a machine may be getting it, or its template, from any container without another owner.
    """
    ids = {want.id, *want.formers}
    found = {c.vmid for c in seen.containers.values() if not ids.isdisjoint(_agents_of(c))}
    if task.numbers & {*found, want.spec.machine.vmid, want.spec.state.pet.vmid}:
        return True
    others = {c.vmid for c in seen.containers.values() if _agents_of(c)} - found
    return _is_new(want.id, seen) and not task.numbers <= others


def _agents_of(container: LxcContainer) -> set[AgentId]:
    """Return the agents that a container is made for; none of a template, and none while its mark is not written."""
    mark = container.noted_mark
    if mark is None or mark.role is not Role.PET:
        return {mark.agent} if mark and mark.agent else set()
    own = {agent_of(mount) for mount in container.mounts if mount.owner == container.vmid}
    return {agent for agent in own if agent} | mark.adopted_agents


def look(client: Client, node: ProxmoxSpec, holder: Holder) -> ProxmoxSeen:
    """Observe the node as it is now, whatever is under way."""
    return _read(client, node, None, holder)[0]


def _read(
    client: Client, node: ProxmoxSpec, want: MachineWant | None, holder: Holder
) -> tuple[ProxmoxSeen, frozenset[int]]:
    """Return the observation, and the containers that are being created and have no mark yet."""
    listed = client.get(f"/nodes/{client.node}/lxc")
    with ThreadPoolExecutor(max_workers=8) as parallel:
        taken = parallel.submit(client.get, "/cluster/resources", {"type": "vm"})
        asks_networks = want is not None and want.spec.machine.net.address != "dhcp"
        capacity = parallel.submit(partial(_capacity, client, asks_networks=asks_networks))
        base_missing = parallel.submit(_base_missing, client, node.base)
        storages = parallel.submit(_storages, client)
        members = pools.read(client, node.pools)
        # A container may have joined its pool since the list was made.
        rows = [*listed, *members.not_in(listed, client.node)]
        found = list(parallel.map(lambda row: _container(client, row, members.pool_of(int(row["vmid"]))), rows))
        distant = list(parallel.map(lambda row: _distant(client, row, members), members.on_other_nodes(client.node)))
    containers = {container.vmid: container for container in found if container}
    on_other_nodes = {container.vmid: (where, container) for where, container in filter(None, distant)}
    numbers = frozenset(int(row["vmid"]) for row in taken.result())
    elsewhere = {str(row["name"]): str(row["node"]) for row in taken.result() if _on_another(client.node, row)}
    here = {int(row["vmid"]) for row in taken.result() if (row["type"], row["node"]) == ("lxc", client.node)}
    locked = {c.vmid for c in containers.values() if c.lock == "create" and c.mark is None}
    seen = ProxmoxSeen(
        containers,
        numbers | containers.keys() | members.numbers,
        capacity.result(),
        base_missing.result(),
        storages.result(),
        holder.name,
        client.now(),
        elsewhere,
        on_other_nodes,
        _hidden(client, members, containers.keys() | on_other_nodes.keys()),
        ended=_ended(containers.values(), holder),
    )
    if want and _is_new(want.id, seen):
        unseen = numbering.taken_unseen(client, want, seen.taken)
        seen = replace(seen, taken=seen.taken | unseen, unseen=unseen)
    return seen, frozenset(locked | (here - containers.keys() - seen.hidden.members.keys()))


def _hidden(client: Client, members: pools.Members, read: Collection[int]) -> Hidden:
    """Return what the token could not read, without the members that were deleted since they were listed."""
    hidden = members.hidden(read)
    left = {vmid: pool for vmid, pool in hidden.members.items() if numbering.is_taken(client, vmid)}
    return replace(hidden, members=left)


def _distant(client: Client, row: Mapping[str, Any], members: pools.Members) -> tuple[str, LxcContainer] | None:
    """Return a member of a pool on another node, with that node."""
    vmid, where = int(row["vmid"]), str(row["node"])
    try:
        config = client.get(f"/nodes/{where}/lxc/{vmid}/config")
    except ApiError:
        return None  # it counts as hidden
    return where, LxcContainer(vmid, str(row.get("status", "unknown")), config, pool=members.pool_of(vmid))


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


def _capacity(client: Client, *, asks_networks: bool) -> Capacity:
    try:
        memory = client.get(f"/nodes/{client.node}/status").get("memory", {}).get("total")
    except Forbidden:
        memory = None
    # Proxmox lists only the storages that the token may see.
    storages = client.get(f"/nodes/{client.node}/storage")
    free = {str(row["storage"]): int(row["avail"]) for row in storages if "avail" in row}
    bridges = client.get(f"/nodes/{client.node}/network", {"type": "any_bridge"}) if asks_networks else []
    networks = {str(row["iface"]): str(row["cidr"]) for row in bridges if row.get("address") and "cidr" in row}
    return Capacity(int(memory) if memory else None, free, networks)


def _container(client: Client, row: Mapping[str, Any], pool: Pool) -> LxcContainer | None:
    vmid = int(row["vmid"])
    path = f"/nodes/{client.node}/lxc/{vmid}"
    try:
        config = client.get(f"{path}/config")
        container = LxcContainer(vmid, str(row["status"]), config, pool=pool)
        if not (container.has(Role.CATTLE) or container.has(Role.READER)) or not container.running:
            return container
        waiting = client.get(f"{path}/pending")
        reached_at = address(client, vmid)
    except NoContainer:
        return None  # destroyed since the list was made
    except Forbidden:
        return None  # hidden, or out of its pool since the list was made
    except Stopped:
        return replace(container, status="stopped")
    pending = frozenset(str(entry["key"]) for entry in waiting if "pending" in entry or "delete" in entry)
    return replace(container, address=reached_at, pending=pending, uptime=int(row.get("uptime", 0)))


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
