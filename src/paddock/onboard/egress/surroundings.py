"""What only the machine knows: addresses of host names, its name servers, and the networks it is connected to."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

KEPT = 3600.0  # seconds that an address stays open after the name stopped to have it: a program may have cached it
RTF_GATEWAY = 0x2
# A shorter prefix is no network around the machine: a tunnel for all traffic has such routes.
SHORTEST_4, SHORTEST_6 = 8, 16


class Names:
    """The addresses of host names, as the machine's resolver answers."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, float]] = {}

    def ask(self, names: Iterable[str]) -> None:
        """Resolve all names at the same time."""
        wanted = sorted(set(names))
        with ThreadPoolExecutor(max_workers=max(1, len(wanted))) as pool:
            for name, addresses in zip(wanted, pool.map(resolve, wanted)):  # noqa: B905 # Python 3.9 has no strict
                now = time.monotonic()
                known = self.seen.setdefault(name, {})
                known.update(dict.fromkeys(addresses, now + KEPT))
                self.seen[name] = {address: end for address, end in known.items() if end > now}

    def addresses(self, name: str) -> list[str]:
        return sorted(self.seen.get(name, {}))


def resolve(name: str) -> set[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return set()
    return {str(each[4][0]).partition("%")[0] for each in found}


def is_address(host: str) -> bool:
    """Whether a host is an address or a network, and not a name."""
    try:
        ipaddress.ip_network(host)
    except ValueError:
        return False
    return True


def may_be_named(name: str, address: str) -> bool:
    """Whether a name may have this address: whoever answers for the name could otherwise open the machine itself."""
    found = ipaddress.ip_address(address)
    if name == "localhost":
        return found.is_loopback
    mapped = getattr(found, "ipv4_mapped", None)
    return not (mapped or found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified)


def resolvers(text: str) -> list[str]:
    """Return the name servers in the text of a resolv.conf."""
    found = []
    for line in filter(None, text.split("\n")):
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            address = words[1].partition("%")[0]
            if is_address(address):
                found.append(address)
    return found


def connected(routes_4: str, routes_6: str) -> list[str]:
    """Return the networks that the machine reaches without a gateway, from the kernel's lists of routes."""
    return sorted({*_connected_4(routes_4), *_connected_6(routes_6)})


def _connected_4(text: str) -> Iterator[str]:
    for line in text.strip("\n").split("\n")[1:]:
        words = line.split()
        destination, flags, mask = (int(words[at], 16) for at in (1, 3, 7))
        prefix = bin(mask).count("1")
        if prefix >= SHORTEST_4 and not flags & RTF_GATEWAY:
            yield f"{ipaddress.IPv4Address(destination.to_bytes(4, 'little'))}/{prefix}"


def _connected_6(text: str) -> Iterator[str]:
    for line in filter(None, text.split("\n")):
        words = line.split()
        prefix, flags = int(words[1], 16), int(words[8], 16)
        if prefix >= SHORTEST_6 and not flags & RTF_GATEWAY and words[9] != "lo":
            yield f"{ipaddress.IPv6Address(int(words[0], 16))}/{prefix}"
