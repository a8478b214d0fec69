"""Observing a node for an agent, or once for all agents of a run, when no change to its containers is under way."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Final

from paddock.base import clock
from paddock.base.clock import Wait
from paddock.base.errors import PaddockError, Refused
from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.contract import MachineWant
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import Forbidden, NoContainer, Stopped
from paddock.places.proxmox.node import numbers
from paddock.places.proxmox.node import reading as nodes
from paddock.places.proxmox.node.holder import Holder
from paddock.places.proxmox.node.notes import Role
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen
from paddock.places.proxmox.pet.plan import agent_of, path_in_pet

_SETTLE_SECONDS: Final = 120
_TASK_SECONDS: Final = 600
_VMID: Final = re.compile(r"\b\d+", re.ASCII)
# For a container that another token creates. A large restore or the remains of a crash may last longer.
_MAKING_SECONDS: Final = 60
_MACHINE_TASKS: Final = frozenset(
    {
        *("vzcreate", "vzclone", "vztemplate", "vzdestroy", "vzstart", "vzstop", "vzshutdown", "vzreboot"),
        *("move_volume", "resize"),
    }
)


def observe(
    client: Client, node: ProxmoxSpec, want: MachineWant | None, reporter: Callable[[str], None], holder: Holder
) -> ProxmoxSeen:
    """Observe the node, once no change to the agent's containers is under way.

    An interrupted run leaves its last task running. A container that is being created has a lock and no mark yet,
    so only the list of tasks shows that Paddock is creating it.
    """
    wait = Wait()
    agent = want.id if want else None
    told = ""
    half_made: frozenset[int] = frozenset()
    while True:
        reading = read(client, node, holder, asks_networks=_has_fixed_address(want))
        seen = for_agent(client, want, reading.seen, partial(numbers.is_taken, client)) if want else reading.seen
        without_mark = reading.without_mark
        task = next((task for task in reading.tasks if want and _may_change(want, task, seen)), None)
        if task is None:
            if without_mark != half_made:
                # Begun since the tasks were read, perhaps for this agent: read tasks and marks again.
                half_made = without_mark
                continue
            locked = next((c for c in seen.containers.values() if c.lock and _concerns(agent, c)), None)
            queued = next((c for c in seen.machines_of(agent) if c.ha_is_busy), None) if agent else None
            unknown = half_made if _is_new(agent, seen) and wait.lasted < _MAKING_SECONDS else ()
            if locked is None and queued is None and not unknown:
                return seen
            if queued and wait.lasted > _SETTLE_SECONDS:
                raise Refused(
                    f"HA has been at work on {queued.name} for {_SETTLE_SECONDS} s ({queued.ha})",
                    hint="`ha-manager status`, as root on a node, says more; run the same command again afterwards",
                )
            if locked and wait.lasted > _SETTLE_SECONDS:
                raise Refused(
                    f"{locked.name} has been locked ({locked.lock}) for {_SETTLE_SECONDS} s, not by a task of Paddock",
                    hint="the node's task list shows which task holds the lock; if there is none, docs/proxmox.md"
                    " says how root removes it",
                )
            made = f"container {min(unknown)} is being created, perhaps for {agent.name}" if unknown and agent else ""
            busy = f"HA is at work on {queued.name} ({queued.ha})" if queued else made
            waiting = f"{locked.name} is locked ({locked.lock})" if locked else busy
        else:
            waiting = _busy_with(task, wait)
        if waiting != told:
            reporter(f"{waiting}; waiting for it to end")
            told = waiting
        clock.sleep(0.3)


def await_tasks(client: Client, vmid: int, reporter: Callable[[str], None]) -> None:
    """Wait until no task of this token changes a container of this number.

    A container joins its pool when it is complete. Until then, a limited token sees only the task that creates it.
    """
    wait = Wait()
    told = ""
    while task := next((task for task in _own_tasks(client) if vmid in task.numbers), None):
        waiting = _busy_with(task, wait)
        if waiting != told:
            reporter(f"{waiting}; waiting for it to end")
            told = waiting
        clock.sleep(0.3)


def _busy_with(task: _Task, wait: Wait) -> str:
    """Say that the node is busy with a task. Raise if it has been for too long."""
    if wait.lasted > _TASK_SECONDS:
        raise PaddockError(
            f"the node has been busy with {task} for {_TASK_SECONDS} s",
            hint="check on the node why the task has not ended, and run the same command again afterwards",
        )
    return f"the node is busy with {task}"


def _is_new(agent: AgentId | None, seen: ProxmoxSeen) -> bool:
    """Whether the agent lacks a pet or a machine, which a run with another token may be creating."""
    if agent is None:
        return False
    return not seen.owners_of(path_in_pet(agent)) or not seen.cattle_of(agent)


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


@frozen
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
    """Observe the node as it is now, without waiting for tasks."""
    return nodes.read_node(client, node, holder, nodes.read(client), asks_networks=False)[0]


@frozen
class Reading:
    """A node at one moment: its containers, and the tasks of this token that ran just before."""

    tasks: Sequence[_Task]
    seen: ProxmoxSeen
    without_mark: frozenset[int]  # containers that are being created and have no mark yet

    def settled_for(self, want: MachineWant) -> bool:
        """Whether no change to the agent's containers was under way."""
        if any(_may_change(want, task, self.seen) for task in self.tasks):
            return False
        if any(_concerns(want.id, container) for container in self._locked):
            return False
        return not (self.without_mark and _is_new(want.id, self.seen))

    @cached_property
    def _locked(self) -> list[LxcContainer]:
        return [container for container in self.seen.containers.values() if container.lock]


def read(client: Client, node: ProxmoxSpec, holder: Holder, *, asks_networks: bool) -> Reading:
    """Read the node once. The tasks are read first, so that the containers that they create are seen afterwards."""
    cluster = nodes.read(client)
    tasks = list(_own_tasks(client))
    return Reading(tasks, *nodes.read_node(client, node, holder, cluster, asks_networks=asks_networks))


def for_agent(client: Client, want: MachineWant, seen: ProxmoxSeen, is_taken: Callable[[int], bool]) -> ProxmoxSeen:
    """Add to the observation the addresses of this agent's machines, and hidden numbers."""
    ids = {want.id, *want.formers}
    machines = [each for agent in ids for each in seen.machines_of(agent)]
    machines += [each for each in seen.with_role(Role.READER) if each.mark and each.mark.agent in ids]
    asks_ha = {each.vmid for each in machines if seen.may_be_under_ha(each.vmid)}
    asks = [each for each in machines if each.running and (each.address is None or want.spec.mounts)]
    asks += [each for each in machines if each.vmid in asks_ha and each not in asks]
    raw = bool(want.spec.mounts)
    read = {each.vmid: _completed(client, each, raw=raw, ha=each.vmid in asks_ha) for each in asks}
    seen = seen.completed(each for each in read.values() if each) if read else seen
    if gone := {vmid for vmid, each in read.items() if each is None}:
        seen = replace(seen, containers={vmid: each for vmid, each in seen.containers.items() if vmid not in gone})
    if _is_new(want.id, seen):
        unseen = numbers.taken_unseen(is_taken, want, seen.taken)
        return replace(seen, taken=seen.taken | unseen, unseen=unseen)
    return seen


def _completed(client: Client, machine: LxcContainer, *, raw: bool, ha: bool) -> LxcContainer | None:
    """Return a machine with its address, and with the state of its HA service if asked; None if it is gone.

    With ``raw`` it has the `lxc.…` lines of its configuration too, which the list of pending changes leaves out.
    """
    try:
        if ha:
            told = client.get(f"/nodes/{client.node}/lxc/{machine.vmid}/status/current").get("ha", {})
            machine = replace(machine, ha=str(told.get("state") or "") if int(told.get("managed", 0)) else None)
        if not machine.running:
            return machine
        found = machine.address or nodes.address(client, machine.vmid)
        config = client.get(f"/nodes/{client.node}/lxc/{machine.vmid}/config") if raw else {}
    except (NoContainer, Forbidden):
        return None
    except Stopped:
        return replace(machine, status="stopped", pending=frozenset(), uptime=0)
    lines = {"lxc": config["lxc"]} if "lxc" in config else {}
    return replace(machine, address=found, config={**machine.config, **lines})


def _has_fixed_address(want: MachineWant | None) -> bool:
    return want is not None and want.spec.machine.net.address != "dhcp"


_FRESH_SECONDS: Final = 60.0  # a run over many agents can take long
_READING_SHARE: Final = 0.1  # the most of a run's time that goes to readings, on a slow node


class SharedReading:
    """A reading of the node that several agents use, until this run changes something or the reading is old.

    Verbs that only report use it, and `up` finds out from it that nothing has to change. Steps are planned from
    an observation of their own, and each step reads its container again.
    """

    def __init__(self, client: Client, read: Callable[[], Reading]) -> None:
        self._client = client
        self._read = read
        self._lock = threading.Lock()  # the first agent reads, the others wait for it
        self._reading: Reading | None = None
        self._old_at = 0.0  # by the monotonic clock
        self._taken: dict[int, bool] = {}  # numbers that were asked for, since the reading
        self._changed = False

    def end(self) -> None:
        """Stop sharing, because this run changes something."""
        self._changed = True

    def seen(self, want: MachineWant | None) -> ProxmoxSeen | None:
        """Return the observation for an agent; None if the agent needs one of its own."""
        with self._lock:
            if self._changed:
                return None
            if self._reading is None or clock.monotonic() > self._old_at:
                self._reading = self._new_reading()
            reading = self._reading
        if want is None:
            return reading.seen
        return for_agent(self._client, want, reading.seen, self._is_taken) if reading.settled_for(want) else None

    def _new_reading(self) -> Reading:
        began = clock.monotonic()
        reading = self._read()
        now = clock.monotonic()
        self._old_at = now + max(_FRESH_SECONDS, (now - began) / _READING_SHARE)
        self._taken = {}
        return reading

    def _is_taken(self, vmid: int) -> bool:
        with self._lock:
            if vmid not in self._taken:
                self._taken[vmid] = numbers.is_taken(self._client, vmid)
            return self._taken[vmid]
