"""MAC addresses, made from names so that a recreated machine keeps its own and DHCP gives it the same address.

Two nodes or clusters may be in one local network, and their agents and numbers have the same names by default.
Therefore project and place are part of the name.
"""

from __future__ import annotations

import hashlib
from typing import Final

from paddock.places import MachineWant
from paddock.places.proxmox.seen import LxcContainer

WITH_PLACE: Final = "2"  # in the mark of a pet whose machines have MACs made with project and place


def of_machine(want: MachineWant, vmid: int, pet: LxcContainer | None) -> str:
    """Return the MAC of an agent's machine. Agents of a pet without the word in its mark keep that of earlier versions.

    Without a pet the machine is new: the plan creates a pet with that word.
    """
    if pet is not None and not (pet.mark and pet.mark.macs == WITH_PLACE):
        return _from(want.agent, vmid)
    return of_helper(want, want.agent, vmid)


def of_helper(want: MachineWant, name: str, vmid: int) -> str:
    """Return the MAC of a builder, or of a machine that reads a backup."""
    return _from(f"{want.id.project}/{want.spec.place}/{name}", vmid)


def _from(name: str, vmid: int) -> str:
    digest = hashlib.sha256(f"{name}/{vmid}".encode()).hexdigest().upper()
    return f"BC:24:11:{digest[0:2]}:{digest[2:4]}:{digest[4:6]}"
