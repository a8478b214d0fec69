"""Read the resource usage and network interfaces of running containers from the kernel."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from pvebox.runtime.contract import Interface, Usage
from pvebox.runtime.lxc.names import Names
from pvebox.server.process import attempt


def control_groups(name: str) -> list[Path]:
    """Return a container's cgroup directories, for cgroup v1 and v2."""
    top = Path("/sys/fs/cgroup")
    return [*top.glob(f"lxc.*.{name}"), *top.glob(f"*/lxc.*.{name}")]


def usage(names: Names, vmid: int, pid: int, start_ticks: str) -> Usage:
    """Return the resource usage of a container, given its init's pid and start time."""
    ticks = os.sysconf("SC_CLK_TCK")
    uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    memory = 0
    for directory in control_groups(names.container(vmid)):
        for name in ("memory.usage_in_bytes", "memory.current"):
            with contextlib.suppress(OSError, ValueError):
                memory = memory or int((directory / name).read_text(encoding="ascii"))
    disk, maxdisk = 0, None
    with contextlib.suppress(OSError):
        facts = os.statvfs(f"/proc/{pid}/root")
        maxdisk = facts.f_blocks * facts.f_frsize
        disk = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    received, sent = _traffic(names, vmid)
    return Usage(
        pid=pid,
        uptime=int(uptime - int(start_ticks or 0) / ticks),
        mem=memory,
        disk=disk,
        maxdisk=maxdisk,
        netin=received,
        netout=sent,
    )


def _traffic(names: Names, vmid: int) -> tuple[int, int]:
    received = sent = 0
    for index in range(4):
        directory = Path(f"/sys/class/net/{names.veth(vmid, index)}/statistics")
        with contextlib.suppress(OSError, ValueError):
            # The host's end of the interface sends what the container receives.
            received += int((directory / "tx_bytes").read_text(encoding="ascii"))
            sent += int((directory / "rx_bytes").read_text(encoding="ascii"))
    return received, sent


def interfaces(pid: int) -> list[Interface]:
    """Return the network interfaces in the namespace of a process."""
    ended = attempt("nsenter", "--target", str(pid), "--net", "ip", "-json", "addr")
    found = []
    for entry in json.loads(ended.out or "[]"):
        addresses = tuple(
            (info["family"], info["local"], int(info["prefixlen"]))
            for info in entry.get("addr_info", ())
            if "local" in info
        )
        found.append(Interface(entry["ifname"], entry.get("address", ""), addresses))
    return found
