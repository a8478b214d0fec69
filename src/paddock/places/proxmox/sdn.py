"""Bridges that are SDN vnets: the privilege on a vnet is on a path below its zone, which only the cluster knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import ApiError

TOP: Final = "/sdn/zones"
LOCAL: Final = f"{TOP}/localnetwork"  # of the bridges that are no vnets
_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*", re.ASCII)  # the names become parts of commands for root
_BRIDGE: Final = re.compile(r"vmbr[0-9]+", re.ASCII)  # what Proxmox names its bridges

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
    """Return the path that the privilege on a bridge or a vnet is needed on."""
    return f"{TOP}/{known[bridge]}/{bridge}" if bridge in known else f"{LOCAL}/{bridge}"


def may_be_vnet(client: Client, bridge: str, known: Zones) -> bool:
    """Whether a name may be that of a vnet that the token does not see."""
    if bridge in known or _BRIDGE.fullmatch(bridge):
        return False
    rows = client.get(f"/nodes/{client.node}/network", {"type": "any_bridge"})
    return bridge not in {row.get("iface") for row in rows}
