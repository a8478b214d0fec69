"""The servers of network filesystems and disks, to which the kernel itself opens connections."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from paddock.onboard.egress.surroundings import is_address

# The clients of NFS in older kernels, of CIFS and of Ceph have sockets that no program owns.
KINDS = ("nfs", "nfs4", "cifs", "smb3", "ceph")
ADDRESSES = ("addr", "mountaddr", "ip", "mon_addr")
# The servers of a Ceph cluster are on the network of its monitors, which alone are known here.
CEPH_PORTS = "3300, 6789, 6800-7568"
CEPH_NETWORK_4, CEPH_NETWORK_6 = 16, 48


def mounted(table: str) -> Iterator[tuple[str, bool]]:
    """Yield each host of a network filesystem, and whether it is one of Ceph, from the text of an fstab."""
    for line in table.split("\n"):
        words = line.split()
        if len(words) < 4 or words[0].startswith("#") or words[2] not in KINDS:
            continue
        source, kind, options = words[0], words[2], words[3].split(",")
        stated = [value for name, _, value in (option.partition("=") for option in options) if name in ADDRESSES]
        for address in (without_port(each) for value in stated for each in value.split("/")):
            if is_address(address):
                yield address, kind == "ceph"
        for host in filter(None, map(without_port, of_source(source, kind))):
            yield host, kind == "ceph"


def of_source(source: str, kind: str) -> list[str]:
    """Return the hosts in what is mounted."""
    if kind in ("cifs", "smb3"):
        return [source.lstrip("/").partition("/")[0]]
    return source.rpartition(":/")[0].split(",")


def disks(rbd: list[str], nvme: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield the hosts of disks of Ceph (RBD) and of NVMe over TCP, from the kernel's descriptions of them."""
    monitors = [(each, True) for text in rbd for each in text.partition(" ")[0].split(",")]
    words = [word.partition("=") for text in nvme for word in text.strip().split(",")]
    for host, ceph in [*monitors, *((value, False) for name, _, value in words if name == "traddr")]:
        if is_address(address := without_port(host)):
            yield address, ceph


def without_port(host: str) -> str:
    """Return a host without its port, and an IPv6 address without brackets and zone."""
    if host.startswith("["):
        return host[1:].partition("]")[0].partition("%")[0]
    name, colon, port = host.rpartition(":")
    if colon and port.isdigit() and ":" not in name:
        return name
    return host.partition("%")[0]


def reachable(address: str, *, ceph: bool) -> Iterator[tuple[str, str | None]]:
    """Yield the networks that are open to the kernel because of a server, with ports in the form of nft."""
    yield address, None
    if ceph:
        prefix = CEPH_NETWORK_6 if ":" in address else CEPH_NETWORK_4
        yield str(ipaddress.ip_network(f"{address}/{prefix}", strict=False)), CEPH_PORTS
