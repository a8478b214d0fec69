"""Network options: `netN` texts, and the MAC addresses Proxmox gives out."""

from __future__ import annotations

import secrets

from .errors import OperationError
from .options import NETWORK
from .schema import FormatError, parse_property_string, print_property_string


def parse_network(text: str) -> dict[str, str]:
    """The parts of a `netN` text."""
    try:
        return parse_property_string(text, NETWORK)
    except FormatError as error:
        raise OperationError(str(error)) from None


def complete_network(text: str) -> str:
    """A `netN` text with the type and, where none is given, a new MAC address."""
    parts = parse_network(text)
    parts["type"] = "veth"
    parts.setdefault("hwaddr", new_mac())
    return print_property_string(parts, NETWORK)


def new_mac() -> str:
    """A random address under Proxmox's own prefix."""
    tail = ":".join(f"{byte:02X}" for byte in secrets.token_bytes(3))
    return f"BC:24:11:{tail}"
