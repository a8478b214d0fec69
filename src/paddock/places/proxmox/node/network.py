"""Networks of a node: the zones of its vnets, and the MAC of a machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from paddock.places.contract import MachineWant
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import ApiError
from paddock.places.proxmox.node.observation import LxcContainer

TOP: Final = "/sdn/zones"
LOCAL: Final = f"{TOP}/localnetwork"  # of the bridges that are no vnets
_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*", re.ASCII)  # the names become parts of commands for root
_BRIDGE: Final = re.compile(r"vmbr[0-9]+", re.ASCII)  # the names that Proxmox gives its bridges

Zones = Mapping[str, str]  # of the vnets that the token may see
NONE: Final[Zones] = MappingProxyType({})


def zones(client: Client) -> Zones:
    """Return the zones of the vnets that the token may see."""
    try:
        rows = client.get("/cluster/sdn/vnets")
    except ApiError:
        return {}  # nothing is known then, as with a token that may see none
    found = {str(row.get("vnet", "")): str(row.get("zone", "")) for row in rows}
    return {vnet: zone for vnet, zone in found.items() if _ID.fullmatch(vnet) and _ID.fullmatch(zone)}


def path(bridge: str, known: Zones) -> str:
    """Return the path of a bridge or a vnet, on which the privilege is needed."""
    return f"{TOP}/{known[bridge]}/{bridge}" if bridge in known else f"{LOCAL}/{bridge}"


def may_be_vnet(client: Client, bridge: str, known: Zones) -> bool:
    """Whether a name may be that of a vnet that the token does not see."""
    if bridge in known or _BRIDGE.fullmatch(bridge):
        return False
    rows = client.get(f"/nodes/{client.node}/network", {"type": "any_bridge"})
    return bridge not in {row.get("iface") for row in rows}


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
