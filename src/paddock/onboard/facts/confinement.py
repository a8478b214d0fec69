"""Read what the kernel and systemd report about the confinement of the agent."""

from __future__ import annotations

import os
import re
from typing import Any

from paddock.onboard.facts.files import rows, text


def isolation(pid: int) -> dict[str, Any]:
    """Return the user, capabilities, filters and mounts of a process."""
    folder = f"/proc/{pid}/"
    status = dict(line.split(":\t", 1) for line in rows(folder + "status") if ":\t" in line)
    mounts: dict[str, str] = {}
    for line in rows(folder + "mountinfo"):
        words, _, ends = line.partition(" - ")
        where, options = words.split()[4:6]
        if where in ("/proc", "/proc/sys", "/sys"):
            mounts[where] = options + "," + ends.split()[2]
    return {
        "uid": status.get("Uid", "").split()[:1],
        "uid_map": text(folder + "uid_map").split(),
        "effective": status.get("CapEff"),
        "bounding": status.get("CapBnd"),
        "no_new_privileges": status.get("NoNewPrivs"),
        "seccomp": status.get("Seccomp"),
        "mounts": mounts,
        "own_pid_namespace": os.readlink(folder + "ns/pid") != os.readlink("/proc/self/ns/pid"),
        "apparmor": text(folder + "attr/current").strip("\0\n "),
        "apparmor_enabled": text("/sys/module/apparmor/parameters/enabled").strip() == "Y",
    }


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
