"""API methods: the options of the datacenter, the SDN vnets, and the cluster's own config (corosync)."""

from __future__ import annotations

from typing import Any, Final

from pvebox.api.errors import ApiError
from pvebox.api.routes import Call, anybody, api, having

_READ: Final = having("/", "Sys.Audit")


class _NoClusterError(ApiError):
    status = 424


@api.method("GET", "/cluster/options", anybody)
def options(call: Call) -> dict[str, Any]:
    """Return the options of the datacenter. None are set, so only the tags that everybody may use are shown."""
    return {"allowed-tags": []}


@api.method("GET", "/cluster/sdn/vnets", anybody)
def vnets(call: Call) -> list[dict[str, Any]]:
    """Return the vnets that the caller may see, with their zones."""
    return [
        {"vnet": name, "zone": zone, "type": "vnet"}
        for name, zone in sorted(call.cluster.vnets.items())
        if call.allows(f"/sdn/zones/{zone}/{name}", "SDN.Audit", "SDN.Use", any_of=True)
    ]


@api.method("GET", "/cluster/config/nodes", _READ)
def nodes(call: Call) -> list[dict[str, str]]:
    """Return the nodes of the cluster's config. A single node has no such config."""
    members = [*call.cluster.nodes.values()]
    return [
        {
            "name": node.name,
            "node": node.name,
            "nodeid": str(number),
            "quorum_votes": "1",
            "ring0_addr": node.address,
        }
        for number, node in enumerate(members if len(members) > 1 else (), start=1)
    ]


@api.method("GET", "/cluster/config/totem", _READ)
def totem(call: Call) -> dict[str, Any]:
    """Return the settings of the cluster's protocol. A single node has none."""
    if len(call.cluster.nodes) < 2:
        return {}
    return {
        "cluster_name": call.cluster.name,
        "config_version": str(call.cluster.config_version),
        "interface": {"0": {"linknumber": "0"}},
        "ip_version": "ipv4-6",
        "link_mode": "passive",
        "secauth": "on",
        "version": "2",
    }


@api.method("GET", "/cluster/config/join", _READ)
def join(call: Call) -> dict[str, Any]:
    """Return what another node needs to join the cluster."""
    if len(call.cluster.nodes) < 2:
        raise _NoClusterError("node is not in a cluster, no join info available!")
    listed = [{**node, "pve_addr": node["ring0_addr"], "pve_fp": call.cluster.fingerprint} for node in nodes(call)]
    return {"nodelist": listed, "preferred_node": call.cluster.local_node, "totem": totem(call)}
