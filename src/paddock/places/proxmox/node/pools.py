"""Paddock's two pools: their members, and the rule that a mark counts only in the pool for its role."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from paddock.base.frozen import frozen
from paddock.file.models.place import PoolsSpec
from paddock.places.contract import MachineWant
from paddock.places.proxmox.actions import CannotPlan
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import Forbidden, Missing
from paddock.places.proxmox.node.notes import Role
from paddock.places.proxmox.node.observation import Hidden, LxcContainer, Pool, ProxmoxSeen
from paddock.places.proxmox.pet import plan as pets
from paddock.places.proxmox.pet.plan import path_in_pet, reading_hint


def pool_for(spec: PoolsSpec, role: Role) -> str:
    """Return the name of the pool for containers of that role."""
    return spec.state if role is Role.PET else spec.machines


def join_command(spec: PoolsSpec, role: Role, vmid: int, there: Pool = Pool.OUTSIDE) -> str:
    """Return root's command that puts a container into the pool for its role; running it twice does no harm."""
    # Without --allow-move Proxmox refuses to take a container out of somebody else's pool.
    move = " --allow-move 1" if there in (Pool.MACHINES, Pool.STATE) else ""
    return f"pveum pool modify {pool_for(spec, role)} --vms {vmid}{move}"


def check_listed(seen: ProxmoxSeen) -> None:
    """Refuse to plan without the list of a pool's members."""
    if seen.hidden.pools:
        names = " and ".join(seen.hidden.pools)
        raise CannotPlan(
            f"the members of pool {names} cannot be listed: there is no such pool, or the token lacks Pool.Audit on it",
            "`paddock doctor` prints the commands that create the pools and grant the token its privileges",
            code="pools.unlisted",
        )


def check_state_known(want: MachineWant, spec: PoolsSpec | None, seen: ProxmoxSeen) -> None:
    """Refuse to believe that the agent has no pet while one may be hidden, or on another node."""
    pets.check_not_on_another_node(want, seen)
    pets.check_reachable(want, seen)
    if spec is not None:
        _check_hidden(want, spec.state, "has a pet", seen)


def check_machine_known(want: MachineWant, spec: PoolsSpec | None, seen: ProxmoxSeen) -> None:
    """Refuse to believe that the agent has no machine while one may be hidden, or on another node."""
    ids = {want.id, *want.formers}
    for vmid, (node, container) in seen.on_other_nodes.items():
        if container.has(Role.CATTLE) and container.mark and container.mark.agent in ids:
            raise CannotPlan(
                f"container {vmid} on node {node} is the machine of {want.agent}",
                f"name that node in the file (machine.node: {node}), or migrate the machine to this one",
                code="machine.on-another-node",
            )
    if not want.beside_others and not _state_is_local(want, seen):
        pets.unreachable_refusal(want, Role.CATTLE, "has a machine", seen)
    if spec is not None:
        _check_hidden(want, spec.machines, "has a machine", seen)


def _state_is_local(want: MachineWant, seen: ProxmoxSeen) -> bool:
    """Whether the agent's state is here and on a local storage, so that no machine of another node can mount it."""
    states = [state for pet in pets.owners_of_state(want, seen) if (state := pets.state_in(want, pet))]
    return bool(states) and all(state.storage in seen.local for state in states)


def check_inside(want: MachineWant, spec: PoolsSpec | None, seen: ProxmoxSeen) -> None:
    """Refuse while the only pet or machine with the agent's mark is outside its pool, as Paddock 0.1 left them."""
    if spec is None or not seen.outside:
        return
    ids = {want.id, *want.formers}
    pets = [c for c in seen.containers.values() if _noted(c) is Role.PET and _is_pet_of(want, c)]
    machines = [c for c in seen.containers.values() if c.noted_mark and c.noted_mark.agent in ids]
    machines = [c for c in machines if _noted(c) is Role.CATTLE]
    outside = [each for found in (machines, pets) if not any(c.mark for c in found) for each in found]
    if not outside:
        return
    commands = " && ".join(join_command(spec, _noted(each) or Role.CATTLE, each.vmid, each.pool) for each in outside)
    marks = " and ".join(f"{c.name} has the mark of its {'pet' if c in pets else 'machine'}" for c in outside)
    raise CannotPlan(
        f"{want.agent} has nothing in the pools of Paddock, but {marks}",
        f"if that is right, run as root on the node: {commands}\n"
        "otherwise remove the line that begins with `paddock:` from the notes",
        code="pools.outside",
    )


def check_visible(spec: PoolsSpec | None, machine: int, seen: ProxmoxSeen) -> None:
    """Refuse to adopt a container that the token may not see; one outside the pools is hidden from a limited token."""
    if spec and machine not in seen.taken:
        raise CannotPlan(
            f"container {machine} does not exist, or is not in the pools of Paddock",
            f"if it exists, run as root on the node: {join_command(spec, Role.CATTLE, machine)}",
            code="adopt.unseen",
        )


def check_owner_visible(spec: PoolsSpec | None, owner: int | None, seen: ProxmoxSeen) -> None:
    """Refuse to adopt a volume whose owner the token may not see."""
    if spec and owner is not None and owner not in seen.containers:
        raise CannotPlan(
            f"container {owner} owns the volume, and is not in the pools of Paddock",
            f"run as root on the node: {join_command(spec, Role.PET, owner)}",
            code="adopt.unseen-owner",
        )


def check_adoptable(
    spec: PoolsSpec | None, machine: LxcContainer | None, pet: LxcContainer | None, source: LxcContainer | None
) -> None:
    """Refuse to adopt containers outside the pools; only root may put them there."""
    if spec is None:
        return
    commands = []
    if machine and not machine.pool.trusts(Role.CATTLE):
        commands.append(join_command(spec, Role.CATTLE, machine.vmid, machine.pool))
    if pet and not pet.pool.trusts(Role.PET):
        commands.append(join_command(spec, Role.PET, pet.vmid, pet.pool))
    if source and source is not machine and source.pool is Pool.OUTSIDE:
        commands.append(join_command(spec, Role.CATTLE, source.vmid, source.pool))
    if commands:
        raise CannotPlan(
            "what is adopted has to be in the pools of Paddock, where its marks count and the token has privileges",
            f"run as root on the node: {' && '.join(commands)}",
            code="adopt.outside-pools",
        )


def _check_hidden(want: MachineWant, pool: str, what: str, seen: ProxmoxSeen) -> None:
    hidden = sorted(vmid for vmid, name in seen.hidden.members.items() if name == pool)
    if hidden:
        numbers, unknown = ", ".join(map(str, hidden)), f"it is not known whether {want.agent} {what}"
        raise CannotPlan(
            f"the token may not read container {numbers} in pool {pool}; {unknown}",
            reading_hint(hidden[0]),
            code="pools.hidden-member",
        )


def _noted(container: LxcContainer) -> Role | None:
    """Return the role in the notes, whether the mark counts or not."""
    return container.noted_mark.role if container.noted_mark else None


def _is_pet_of(want: MachineWant, container: LxcContainer) -> bool:
    return any(container.mount_at(path_in_pet(agent)) for agent in (want.id, *want.formers))


@frozen
class Members:
    """The containers in the pools, also those that the token may not see."""

    spec: PoolsSpec | None
    rows: Mapping[Pool, Mapping[int, Mapping[str, Any]]]
    unlisted: tuple[str, ...] = ()  # pools that the token may not list, or that do not exist

    def pool_of(self, vmid: int) -> Pool:
        """Return the pool of a container of any node."""
        if self.spec is None:
            return Pool.ANY
        return next((pool for pool, rows in self.rows.items() if vmid in rows), Pool.OUTSIDE)

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(vmid for rows in self.rows.values() for vmid in rows)

    def on_other_nodes(self, node: str) -> Iterator[Mapping[str, Any]]:
        """Yield the members that are on another node of the cluster."""
        return (row for rows in self.rows.values() for row in rows.values() if row["node"] != node)

    def not_in(self, listed: Iterable[Mapping[str, Any]], node: str) -> list[Mapping[str, Any]]:
        """Return the members on a node that a list of its containers lacks."""
        known = {int(row["vmid"]) for row in listed}
        return [row for rows in self.rows.values() for row in rows.values() if _lacks(known, row, node)]

    def hidden(self, read: Collection[int]) -> Hidden:
        """Return the members and pools that the token could not read. ``read`` are the containers that it could."""
        if self.spec is None:
            return Hidden()
        names = {Pool.MACHINES: self.spec.machines, Pool.STATE: self.spec.state}
        unread = {vmid: names[pool] for pool, rows in self.rows.items() for vmid in rows if vmid not in read}
        return Hidden(self.unlisted, unread)


def _lacks(known: Collection[int], row: Mapping[str, Any], node: str) -> bool:
    return row["node"] == node and int(row["vmid"]) not in known


def read(client: Client, spec: PoolsSpec | None) -> Members:
    """List the members of both pools. Proxmox also lists members whose configuration the token may not read."""
    if spec is None:
        return Members(None, {})
    rows: dict[Pool, Mapping[int, Mapping[str, Any]]] = {}
    unlisted = []
    for pool, name in ((Pool.MACHINES, spec.machines), (Pool.STATE, spec.state)):
        try:
            found = client.get("/pools", {"poolid": name})
        except (Forbidden, Missing):
            unlisted.append(name)
            continue
        members = [row for each in found for row in each.get("members", ()) if row.get("type") == "lxc"]
        rows[pool] = {int(row["vmid"]): row for row in members}
    return Members(spec, rows, tuple(unlisted))
