"""Find the agent's processes in /proc, and the sockets that it and other programs listen on."""

from __future__ import annotations

import glob
import os
import re
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

from paddock.onboard.facts.files import content, rows, text

MOST = 100  # sockets that are reported


def listening(pids: list[int], *, alone: bool) -> list[list[Any]]:
    """Return the addresses and ports that the agent listens on."""
    own = own_sockets(pids, alone=alone)
    return sorted([host, port] for host, port, uid, inode in listeners(pids[:1]) if own(uid, inode))


def ports(wanted: list[int], pids: list[int], *, alone: bool) -> dict[str, Any]:
    """Return the ports that the agent listens on, and the other programs that listen on the wanted ports."""
    own = own_sockets(pids, alone=alone)
    found = [(port, inode, own(uid, inode)) for _, port, uid, inode in listeners([os.getpid()])]
    others = {inode: port for port, inode, its_own in found if port in wanted and not its_own}
    holders = {inode: pid for pid in sorted(all_pids(), reverse=True) for inode in sockets({pid})} if others else {}
    return {
        "own": sorted({port for port, _, its_own in found if its_own}),
        "others": [
            {"port": port, "pid": holders[inode], "name": text(f"/proc/{holders[inode]}/comm").strip()}
            for inode, port in others.items()
            if inode in holders
        ],
    }


def company(pids: list[int], *, alone: bool) -> list[dict[str, Any]]:
    """Return the sockets of the machine that other programs than the agent listen on, with the programs' names."""
    own = own_sockets(pids, alone=alone)
    found = [(host, port, uid, inode) for host, port, uid, inode in listeners([os.getpid()]) if not own(uid, inode)]
    names = {inode: text(f"/proc/{pid}/comm").strip() for pid in all_pids() for inode in sockets({pid})}
    return [
        {"host": host, "port": port, "uid": uid, "name": names.get(inode, "")}
        for host, port, uid, inode in found[:MOST]
    ]


def own_sockets(pids: list[int], *, alone: bool) -> Callable[[int, str], bool]:
    """Return a function that tells whether a socket belongs to the agent, by its uid and inode.

    An agent with an account of its own (``alone``) owns all sockets of that account; else those of its processes.
    """
    if alone:
        accounts = {account(pid) for pid in pids}
        return lambda uid, _: uid in accounts
    inodes = set(sockets(descendants(set(pids))))
    return lambda _, inode: inode in inodes


def listeners(seen_by: list[int]) -> Iterator[tuple[str, int, int, str]]:
    """Yield address, port, uid and inode of the listening sockets in the network namespace of each process."""
    for pid in seen_by:
        for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
            for row in rows(f"/proc/{pid}/net/{table}")[1:]:
                words = row.split()
                if words[3] == "0A":
                    host, port = words[1].split(":")
                    yield address(host, family), int(port, 16), int(words[7]), words[9]


def address(words: str, family: int) -> str:
    raw = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    return socket.inet_ntop(family, raw)


def sockets(pids: set[int]) -> Iterator[str]:
    for pid in pids:
        for link in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                match = re.match(r"socket:\[(\d+)\]", os.readlink(link))
            except OSError:
                continue
            if match:
                yield match[1]


def agents_own(started: list[int]) -> list[int]:
    """Return the first non-root descendants of the started processes, or the started ones if all run as root."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found, left = [], list(started)
    while left:
        pid = left.pop()
        uid = account(pid)
        if uid is not None and not is_root(pid, uid):
            found.append(pid)
        else:
            left += children.get(pid, [])
    return found or started


def account(pid: int) -> int | None:
    """Return the uid of a process, or None if it has ended."""
    found = re.search(r"^Uid:\t(\d+)", text(f"/proc/{pid}/status"), re.MULTILINE)
    return int(found[1]) if found else None


def is_root(pid: int, uid: int) -> bool:
    """Return whether a process with this uid is root in its own user namespace."""
    if uid == 0 or content(f"/proc/{pid}/uid_map") == content("/proc/self/uid_map"):
        return uid == 0
    ranges = (map(int, line.split()) for line in rows(f"/proc/{pid}/uid_map"))
    return any(inside == 0 and uid == outside for inside, outside, _ in ranges)


def parents() -> dict[int, int]:
    found = {}
    for pid in all_pids():
        # The process name in the middle may contain blanks and brackets.
        fields = text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if fields:
            found[pid] = int(fields[1])
    return found


def descendants(pids: set[int]) -> set[int]:
    known, found = parents(), set(pids)
    while True:
        more = {pid for pid, parent in known.items() if parent in found} - found
        if not more:
            return found
        found |= more


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
