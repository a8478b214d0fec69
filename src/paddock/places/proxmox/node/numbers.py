"""Free numbers for containers, and who has a number that is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paddock.places.contract import MachineWant
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import BadParameters
from paddock.places.proxmox.node.notes import Mark
from paddock.places.proxmox.node.observation import LxcContainer, Pool, ProxmoxSeen

_NEEDED: Final = 3  # for a pet, a machine and a builder


def is_taken(client: Client, vmid: int) -> bool:
    """Whether a number is taken; Proxmox answers this for hidden containers too."""
    try:
        client.get("/cluster/nextid", {"vmid": vmid})
    except BadParameters:
        return True
    return False


def taken_unseen(is_taken: Callable[[int], bool], want: MachineWant, taken: frozenset[int]) -> frozenset[int]:
    """Return numbers that are taken by something invisible: those in the file, and the next that look free."""
    asked = {number for number in (want.spec.machine.vmid, want.spec.state.pet.vmid) if number is not None}
    found = {number for number in asked - taken if is_taken(number)}
    free = 0
    for number in range(100, 1_000_000):
        if free == _NEEDED:
            break
        if number in taken or number in asked:
            continue
        if is_taken(number):
            found.add(number)
        else:
            free += 1
    return frozenset(found)


_ANOTHER: Final = "choose another number, or leave it out"


def in_words(vmid: int, seen: ProxmoxSeen) -> str:
    """Return the container or virtual machine that has a number, in words."""
    listed, container = seen.cluster.get(vmid), seen.containers.get(vmid)
    if container is not None:
        return container.name
    if (unreachable := seen.hidden.unreachable.get(vmid)) is not None:
        return f"container {vmid} {unreachable.in_words}"
    if vmid in seen.on_other_nodes:
        node, elsewhere = seen.on_other_nodes[vmid]
        return f"{elsewhere.name} on node {node}"
    if listed is None or (listed.is_container and listed.node == seen.node):
        return "something that the token may not read"
    kind = "container" if listed.is_container else "virtual machine"
    return f"{kind} {vmid} ({listed.name or '?'}) on node {listed.node}"


def hint(vmid: int, seen: ProxmoxSeen) -> str:
    """Return the hint about a number that is taken."""
    container = seen.containers.get(vmid)
    if (unreachable := seen.hidden.unreachable.get(vmid)) is not None:
        return unreachable.hint
    if container is not None and _is_remainder(container, seen):
        return f"if a crash of the node left it incomplete, run there: pct unlock {vmid} && pct destroy {vmid}"
    if container is not None:
        return f"{_ANOTHER}; to use the existing container, run `paddock adopt`"
    if vmid in seen.cluster:
        return f"{_ANOTHER}; on its own node `paddock adopt` can use the existing container"
    return f"{_ANOTHER}; {look_hint(vmid)}"


def look_hint(vmid: int) -> str:
    """Return the hint about a container that nobody could read, or that a crash may have left incomplete."""
    return (
        f"`pct config {vmid}`, as root on its node, shows what it is; docs/proxmox.md says what to do if a crash of"
        " the node left it incomplete"
    )


def _is_remainder(container: LxcContainer, seen: ProxmoxSeen) -> bool:
    """Whether a container is nothing but the beginning of one: read here, unfinished, unmarked, and unused.

    Its lock says that it was never completed, or that a restore over it was begun. So it must have no mark, no tag and
    no pool of Paddock, no volume but a root disk of its own, and no volume that another container names. The list of
    the cluster must show it here too: a container of this number on another node may be the memory.
    """
    listed = seen.cluster.get(container.vmid)
    if container.lock != "create" or container.pool in (Pool.MACHINES, Pool.STATE):
        return False
    if listed is None or listed.node != seen.node or "paddock" in (listed.tags | container.tags):
        return False
    if container.noted_mark or container.newer_mark or not Mark.readable(container.notes):
        return False
    if any(mount.key != "rootfs" or mount.owner != container.vmid for mount in container.mounts):
        return False
    others = [*seen.containers.values(), *(each for _, each in seen.on_other_nodes.values())]
    return not any(
        mount.owner == container.vmid for other in others if other.vmid != container.vmid for mount in other.mounts
    )
