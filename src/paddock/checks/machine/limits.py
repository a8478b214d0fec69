"""Read what the kernel limits of the cgroups of an agent's processes."""

from __future__ import annotations

import re
from typing import Any

from paddock.checks.machine.files import rows, text

TOP = "/sys/fs/cgroup"
# Of a controller: its file in the second version of cgroups, and its files in the first.
MEMORY, CPU = ("memory.max", ["memory.limit_in_bytes"]), ("cpu.max", ["cpu.cfs_quota_us", "cpu.cfs_period_us"])
NO_LIMIT = 1 << 60  # bytes; the first version writes a number that no machine has


def limits(pids: list[int]) -> dict[str, dict[str, Any]]:
    """Return the limits of memory, in bytes, and of processors for each process; None for no limit."""
    return {str(pid): {"memory": memory(pid), "cores": cores(pid)} for pid in pids}


def memory(pid: int) -> int | None:
    found = numbers(pid, "memory", *MEMORY)
    return found[0] if found and found[0] < NO_LIMIT else None


def cores(pid: int) -> float | None:
    found = numbers(pid, "cpu", *CPU)
    return found[0] / found[1] if len(found) == 2 and found[1] else None


def numbers(pid: int, controller: str, now: str, before: list[str]) -> list[int]:
    """Return the numbers that a controller says of a process; none if they have no limit."""
    folder, names = "", [now]
    for line in rows(f"/proc/{pid}/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            folder, names = f"{TOP}/{controllers}{path}", before
            break
        if not controllers:
            folder = f"{TOP}{path}"
    said = " ".join(text(f"{folder}/{name}").strip() for name in names)
    return [int(word) for word in said.split()] if re.fullmatch(r"\d+( \d+)?", said) else []
