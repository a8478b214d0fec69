"""The hosts around an agent that its file names: nodes, machines of places, and machines of other agents."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from paddock.spec.models import PlaceSpec, Spec


def neighbours(agent: str, file: Spec) -> list[str]:
    """Return addresses and host names that an agent does not need, unless one of its own keys names them."""
    places = (host for place in file.places.values() for host in _hosts(place))
    others = (spec.machine.net.address for name, spec in file.agents.items() if name != agent)
    stated = (address.partition("/")[0] for address in others if address != "dhcp")
    return sorted({*places, *stated})


def _hosts(place: PlaceSpec) -> Iterator[str]:
    if place.proxmox is not None and (host := urlsplit(place.proxmox.url).hostname):
        yield host
    if place.host is not None and place.host.address is not None:
        yield place.host.address
