"""API methods: the SDN vnets, and the settings of the datacenter, of the cluster (corosync) and of its nodes."""

from __future__ import annotations

from typing import Any, Final

from pvebox.api import formats
from pvebox.api.errors import ApiError
from pvebox.api.routes import Call, anybody, api, having
from pvebox.api.schema import Prop

_READ: Final = having("/", "Sys.Audit")
_MODIFY_NODE: Final = having("/nodes/{node}", "Sys.Modify")
_NAME_SERVER: Final = Prop(optional=True, format=formats.ip)
_SUBSCRIPTIONS: Final = "https://www.proxmox.com/en/proxmox-virtual-environment/pricing"


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
    """Return the facts that another node needs to join the cluster."""
    if len(call.cluster.nodes) < 2:
        raise _NoClusterError("node is not in a cluster, no join info available!")
    listed = [{**node, "pve_addr": node["ring0_addr"], "pve_fp": call.cluster.fingerprint} for node in nodes(call)]
    return {"nodelist": listed, "preferred_node": call.cluster.local_node, "totem": totem(call)}


@api.method("GET", "/nodes/{node}/dns", having("/nodes/{node}", "Sys.Audit"))
def name_servers(call: Call) -> dict[str, str]:
    """Return the search domain and the name servers of a node."""
    return dict(call.cluster.dns.get(call.node, {}))


@api.method(
    "PUT",
    "/nodes/{node}/dns",
    _MODIFY_NODE,
    {"search": Prop(), "dns1": _NAME_SERVER, "dns2": _NAME_SERVER, "dns3": _NAME_SERVER},
)
def change_name_servers(call: Call) -> None:
    """Replace the search domain and the name servers of a node."""
    chosen = {key: str(value) for key, value in call.params.items() if key != "node"}
    call.cluster.dns = {**call.cluster.dns, call.node: chosen}
    call.cluster.settings_changed()


@api.method("GET", "/nodes/{node}/subscription", anybody)
def subscription(call: Call) -> dict[str, Any]:
    """Return that the node has no subscription."""
    shown = {"status": "notfound", "message": "There is no subscription key", "url": _SUBSCRIPTIONS}
    if call.allows(f"/nodes/{call.node}", "Sys.Audit"):
        shown["serverid"] = call.cluster.fingerprint.replace(":", "")[:32]
    return shown


@api.method("DELETE", "/nodes/{node}/subscription", _MODIFY_NODE)
def delete_subscription(call: Call) -> None:
    """Do nothing: the node has no subscription."""
