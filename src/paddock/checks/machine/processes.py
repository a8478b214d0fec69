"""Find the agent's processes in /proc."""

from __future__ import annotations

import os
import re

from paddock.checks.machine.files import content, rows, text


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
