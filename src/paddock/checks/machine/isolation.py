"""Read what the kernel reports about the confinement of a process."""

from __future__ import annotations

import os
from typing import Any

from paddock.checks.machine.files import rows, text


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
