"""Free numbers for containers: the list of a limited token leaves out those that it may not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paddock.places import MachineWant
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import BadParameters

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
