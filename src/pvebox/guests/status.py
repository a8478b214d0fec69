"""Status and usage figures of containers, for the API's lists."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pvebox.cluster.cluster import Cluster
from pvebox.guests import mountpoint
from pvebox.guests.config import CtConfig, parse


def container_status(cluster: Cluster, vmid: int, node: str) -> dict[str, Any]:
    """Return the status of a container in the format of the node's list."""
    configured = _configured(cluster.configs.text(vmid, node))
    entry: dict[str, Any] = {
        "vmid": vmid,
        "type": "lxc",
        "status": "stopped",
        "name": f"CT{vmid}",
        "cpus": cluster.nodes[node].cpus,
        "cpu": 0,
        "mem": 0,
        "swap": 0,
        "disk": 0,
        "diskread": 0,
        "diskwrite": 0,
        "netin": 0,
        "netout": 0,
        "uptime": 0,
        **configured,
    }
    if cluster.runtime.containers.running(vmid):
        usage = cluster.runtime.containers.usage(vmid)
        entry |= {
            **vars(usage),
            "status": "running",
            "maxdisk": usage.maxdisk if usage.maxdisk is not None else entry["maxdisk"],
        }
        # A kernel without pressure figures: Proxmox then answers null.
        entry |= {f"pressure{what}{share}": None for what in ("cpu", "io", "memory") for share in ("some", "full")}
    return entry


@lru_cache(maxsize=4096)
def _configured(text: str) -> Mapping[str, Any]:
    """Return the part of a container's status that the text of its config decides."""
    config = parse(text)
    options = config.options
    entry: dict[str, Any] = {
        "maxmem": int(options.get("memory", 512)) << 20,
        "maxswap": int(options.get("swap", 0)) << 20,
        "maxdisk": _root_size(config),
    }
    for key, option in (("name", "hostname"), ("cpus", "cores"), *((key, key) for key in ("template", "tags", "lock"))):
        if options.get(option):
            entry[key] = options[option]
    return entry


class Statistics:
    """The figures of the cluster's resource list, which are collected every few seconds and therefore lag behind.

    As on Proxmox, a container created since the last collection has status `unknown` and no name.
    """

    def __init__(self, cluster: Cluster, interval: float = 10.0) -> None:
        self._cluster = cluster
        self._interval = interval
        self._gathered: dict[int, dict[str, Any]] = {}
        self._when = 0.0
        self._lock = threading.Lock()

    def gather(self) -> None:
        """Collect the figures of all containers now."""
        with self._lock:
            self._when = time.monotonic()
            self._gathered = {vmid: _resource(self._cluster, vmid) for vmid in self._cluster.configs.vmids()}

    def of(self, vmid: int) -> dict[str, Any]:
        """Return a container's entry from the last collection."""
        if time.monotonic() - self._when >= self._interval:
            self.gather()
        known = self._gathered.get(vmid)
        node = self._cluster.configs.node_of(vmid)
        entry = {"id": f"lxc/{vmid}", "type": "lxc", "vmid": vmid, "node": node}
        if known is not None and node in self._cluster.members.silent:
            # The figures are too old. The tags come from the config.
            known = {"status": "unknown", **{key: known[key] for key in ("tags", "lock") if key in known}}
        entry |= known if known is not None else {"status": "unknown"}
        state = self._cluster.ha.state_of(vmid)
        entry |= {"hastate": state} if state is not None else {}
        pool = self._cluster.access.pool_of(vmid)
        return {**entry, "pool": pool} if pool is not None else entry


def _resource(cluster: Cluster, vmid: int) -> dict[str, Any]:
    status = container_status(cluster, vmid, cluster.configs.node_of(vmid) or "")
    kept = (
        *("status", "name", "uptime", "cpu", "mem", "maxmem", "disk", "maxdisk"),
        *("diskread", "diskwrite", "netin", "netout"),
    )
    entry = {key: status[key] for key in kept}
    entry |= {
        "template": status.get("template", 0),
        "maxcpu": status["cpus"],
        "memhost": 0,
    }
    for key in ("tags", "lock"):
        if key in status:
            entry[key] = status[key]
    return entry


def _root_size(config: CtConfig) -> int:
    text = config.text("rootfs")
    # Proxmox assumes 4 GiB if the config has no size.
    size = mountpoint.parse("rootfs", text).size if text else None
    return size if size is not None else 4 << 30
