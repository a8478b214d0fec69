"""Parse and complete network options (`netN`)."""

from __future__ import annotations

import secrets

from pvebox.api.errors import OperationError
from pvebox.api.schema import FormatError, parse_property_string, print_property_string
from pvebox.guests.options import NETWORK


def parse_network(text: str) -> dict[str, str]:
    """Parse the value of a `netN` option."""
    try:
        return parse_property_string(text, NETWORK)
    except FormatError as error:
        raise OperationError(str(error)) from None


def complete_network(text: str) -> str:
    """Return the value of a `netN` option with its type and, if it has none, a new MAC address."""
    parts = parse_network(text)
    parts["type"] = "veth"
    parts.setdefault("hwaddr", new_mac())
    return print_property_string(parts, NETWORK)


def new_mac() -> str:
    """Return a random MAC address with Proxmox's prefix."""
    tail = ":".join(f"{byte:02X}" for byte in secrets.token_bytes(3))
    return f"BC:24:11:{tail}"
