"""Whether a node has room for an agent: memory, free space on its storages, and the networks of its bridges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv4Interface

from paddock.file.models.whole import ProxmoxSpec
from paddock.places.contract import MachineWant
from paddock.places.proxmox.actions import CannotPlan
from paddock.places.proxmox.machine import plan as machines
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen
from paddock.places.proxmox.pet import cache as caches
from paddock.places.proxmox.pet.plan import Pet


def check_room(
    want: MachineWant, pet: Pet | None, cattle: LxcContainer | None, seen: ProxmoxSeen, node: ProxmoxSpec
) -> None:
    """Refuse more memory than the node has, and volumes for which a storage has no free space."""
    memory = want.spec.machine.memory
    if seen.capacity.memory is not None and memory > seen.capacity.memory:
        has = f"the node has {seen.capacity.memory >> 20}M"
        raise CannotPlan(
            f"the file asks for {memory} of memory, but {has}", "write a smaller machine.memory", code="node.memory"
        )
    for storage, size in _needed(want, pet, cattle, node).items():
        free = seen.capacity.storages.get(storage, size)
        if size > free:
            raise CannotPlan(
                f"storage {storage} needs {size >> 30}G of free space and has {free >> 30}G",
                "free some space, or write smaller sizes",
                code="node.storage",
            )


def _needed(want: MachineWant, pet: Pet | None, cattle: LxcContainer | None, node: ProxmoxSpec) -> Counter[str]:
    """Return how many bytes more each storage has to hold."""
    needed: Counter[str] = Counter()
    if pet is None:
        needed[node.storage] += want.spec.state.pet.disk
    if cattle is None:
        needed[want.spec.machine.storage or node.storage] += want.spec.machine.disk
    elif (root := machines.grows(want, cattle)) and root.size:
        needed[root.storage] += want.spec.machine.disk - root.size
    if pet is None or pet.state is None:
        needed[want.spec.state.storage or node.storage] += want.spec.state.size
    elif pet.state.size:
        needed[pet.state.storage] += max(want.spec.state.size - pet.state.size, 0)
    needed[node.storage] += caches.missing_size(want, pet.container if pet else None)
    return needed


def network_notes(want: MachineWant, seen: ProxmoxSeen, node: ProxmoxSpec) -> Iterator[str]:
    """Yield a warning about a fixed address that is outside the bridge's network or has no gateway."""
    net = want.spec.machine.net
    if net.address == "dhcp":
        return
    if net.gateway is None:
        yield (
            f"machine.net has the address {net.address} and no gateway:"
            f" the machine reaches only {IPv4Interface(net.address).network}"
        )
    bridge = net.bridge or node.bridge
    there = seen.capacity.networks.get(bridge)
    # In a VLAN the node has other addresses, or none.
    if there and net.vlan is None and IPv4Interface(net.address).ip not in IPv4Interface(there).network:
        yield f"machine.net has the address {net.address}, but the node has {there} on {bridge}"
