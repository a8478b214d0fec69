"""API methods: version, next VMID, cluster resources, node status and network."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from pvebox.api import formats
from pvebox.api.errors import OperationError, ParameterError
from pvebox.api.routes import Call, anybody, api, having
from pvebox.api.schema import Prop
from pvebox.cluster.cluster import Node
from pvebox.guests.storage import Storage

_BOOTED = time.time()


@api.method("GET", "/version", anybody)
@api.method("GET", "/nodes/{node}/version", anybody)
def version(call: Call) -> dict[str, str]:
    """Return the release of the cluster, which all nodes have."""
    return asdict(call.cluster.release)


@api.method("GET", "/cluster/nextid", anybody, {"vmid": Prop(type="integer", format=formats.vmid, optional=True)})
def next_id(call: Call) -> str:
    """Return a free VMID as text, without reserving it."""
    wanted = call.text("vmid")
    if wanted is not None:
        if call.cluster.configs.exists(int(wanted)):
            raise ParameterError({"vmid": f"VM {wanted} already exists"})
        return wanted
    for vmid in range(100, 1_000_000):
        if not call.cluster.configs.exists(vmid):
            return str(vmid)
    raise OperationError("unable to get any free VMID in range [100, 1000000]")


@api.method(
    "GET",
    "/cluster/resources",
    anybody,
    {"type": Prop(optional=True, enum=("vm", "storage", "node", "sdn", "network"))},
)
def resources(call: Call) -> list[dict[str, Any]]:
    """Return the pools, containers, storages and nodes that the caller may see."""
    wanted = call.text("type")
    found: list[dict[str, Any]] = []
    if wanted is None:
        found += [
            _pool_resource(call, name)
            for name in sorted(call.cluster.access.pools)
            if call.allows(f"/pool/{name}", "Pool.Audit")
        ]
    if wanted in (None, "vm"):
        for vmid in call.cluster.configs.vmids():
            if call.allows(f"/vms/{vmid}", "VM.Audit"):
                found.append(call.cluster.statistics.of(vmid))
    if wanted in (None, "node"):
        found += [_node_resource(call, node) for node in call.cluster.nodes.values()]
    if wanted in (None, "storage"):
        for node in call.cluster.nodes:
            for storage in call.cluster.storages_of(node):
                if call.allows(f"/storage/{storage.id}", "Datastore.Audit"):
                    found.append(storage_resource(call, node, storage))
    return found


def _pool_resource(call: Call, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": f"/pool/{name}", "type": "pool", "pool": name}
    vmids = call.cluster.access.pools[name].vmids & set(call.cluster.configs.vmids())
    running = [member for member in map(call.cluster.statistics.of, sorted(vmids)) if member.get("uptime")]
    if running:
        cpus = sum(member["maxcpu"] for member in running)
        entry |= {key: sum(member[key] for member in running) for key in ("mem", "maxmem", "maxcpu")}
        entry["cpu"] = sum(member["cpu"] * member["maxcpu"] for member in running) / cpus
        entry["uptime"] = max(member["uptime"] for member in running)
    return entry


def _node_resource(call: Call, node: Node) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": f"node/{node.name}",
        "type": "node",
        "node": node.name,
        "status": call.cluster.members.status(node.name),
        "level": "",
        "cgroup-mode": 1,
    }
    if call.allows(f"/nodes/{node.name}", "Sys.Audit") and node.name not in call.cluster.members.silent:
        entry |= {
            "cpu": 0.01,
            "maxcpu": node.cpus,
            "mem": node.memory // 8,
            "maxmem": node.memory,
            "disk": 24 << 30,
            "maxdisk": 252 << 30,
            "uptime": int(time.time() - _BOOTED),
        }
    return entry


def storage_resource(call: Call, node: str, storage: Storage) -> dict[str, Any]:
    """Return a storage's entry in the cluster's resource list."""
    silent = node in call.cluster.members.silent
    total, used = call.cluster.capacity(storage)
    figures = {} if silent else {"disk": used, "maxdisk": total}
    return {
        "id": f"storage/{node}/{storage.id}",
        "type": "storage",
        "node": node,
        "storage": storage.id,
        "status": "unknown" if silent else "available",
        "plugintype": str(storage.type),
        "content": ",".join(storage.content),
        "shared": int(storage.shared),
        **figures,
    }


@api.method("GET", "/cluster/status", having("/", "Sys.Audit"))
def cluster_status(call: Call) -> list[dict[str, Any]]:
    """Return the nodes, and the cluster if it has more than one node."""
    nodes = list(call.cluster.nodes.values())
    clustered = len(nodes) > 1
    entries: list[dict[str, Any]] = []
    if clustered:
        entries.append(
            {
                "id": "cluster",
                "type": "cluster",
                "name": call.cluster.name,
                "nodes": len(nodes),
                "quorate": int(call.cluster.members.quorate),
                "version": call.cluster.config_version,
            }
        )
    for number, node in enumerate(nodes):
        entries.append(
            {
                "id": f"node/{node.name}",
                "type": "node",
                "name": node.name,
                "ip": node.address,
                "online": int(node.name not in call.cluster.members.offline),
                "local": int(node.name == call.cluster.local_node),
                "nodeid": number + 1 if clustered else 0,
                "level": "",
            }
        )
    return entries


@api.method("GET", "/nodes", anybody)
def nodes(call: Call) -> list[dict[str, Any]]:
    """Return the nodes, with usage figures if the caller may see them."""
    found = []
    for node in call.cluster.nodes.values():
        entry = _node_resource(call, node)
        del entry["cgroup-mode"]
        entry["ssl_fingerprint"] = call.cluster.fingerprint
        found.append(entry)
    return found


@api.method("GET", "/nodes/{node}/certificates/info", anybody)
def certificates(call: Call) -> list[dict[str, Any]]:
    """Return the certificates of a node."""
    return [certificate.entry() for certificate in call.cluster.certificates]


@api.method("GET", "/nodes/{node}/status", having("/nodes/{node}", "Sys.Audit"))
def node_status(call: Call) -> dict[str, Any]:
    """Return the status and usage figures of a node."""
    node = call.cluster.nodes[call.node]
    return {
        "uptime": int(time.time() - _BOOTED),
        "cpu": 0.01,
        "wait": 0,
        "loadavg": ["0.10", "0.10", "0.10"],
        "pveversion": f"pve-manager/{call.cluster.release.version}/{call.cluster.release.repoid}",
        "kversion": "Linux 6.14.11-4-pve #1 SMP PREEMPT_DYNAMIC",
        "cpuinfo": {"cpus": node.cpus, "cores": node.cpus, "sockets": 1, "model": "sandbox"},
        "memory": {"total": node.memory, "used": node.memory // 8, "free": node.memory - node.memory // 8},
        "swap": {"total": 8 << 30, "used": 0, "free": 8 << 30},
        "rootfs": {"total": 252 << 30, "used": 24 << 30, "avail": 228 << 30, "free": 228 << 30},
    }


@api.method(
    "GET",
    "/nodes/{node}/network",
    anybody,
    {"type": Prop(optional=True, enum=("bridge", "any_bridge", "any_local_bridge", "eth", "bond", "vlan"))},
)
def network(call: Call) -> list[dict[str, Any]]:
    """Return the bridges that the caller may use."""
    node = call.cluster.nodes[call.node]
    if call.text("type") not in (None, "bridge", "any_bridge", "any_local_bridge"):
        return []
    found = []
    for number, bridge in enumerate(node.bridges):
        if not call.allows(f"/sdn/zones/localnetwork/{bridge}", "SDN.Audit", "SDN.Use", any_of=True):
            continue
        found.append(
            {
                "iface": bridge,
                "type": "bridge",
                "method": "static",
                "method6": "manual",
                "families": ["inet"],
                "address": node.address,
                "netmask": str(node.prefix),
                "cidr": f"{node.address}/{node.prefix}",
                "gateway": node.address.rsplit(".", 1)[0] + ".254",
                "autostart": 1,
                "active": 1,
                "priority": 3 + number,
                "bridge_ports": "",
                "bridge_stp": "off",
                "bridge_fd": "0",
            }
        )
    return found
