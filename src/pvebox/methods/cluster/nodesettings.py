"""API methods: settings of a node: name servers and subscription."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from pvebox.api.routes import Call, anybody, api, having
from pvebox.api.schema import FormatError, Prop

_SUBSCRIPTIONS: Final = "https://www.proxmox.com/en/proxmox-virtual-environment/pricing"


def _address(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise FormatError("value does not look like a valid IP address\n") from None


_SERVER: Final = Prop(optional=True, format=_address)


@api.method("GET", "/nodes/{node}/dns", having("/nodes/{node}", "Sys.Audit"))
def name_servers(call: Call) -> dict[str, str]:
    """Return the search domain and the name servers of a node."""
    return dict(call.cluster.dns.get(call.node, {}))


@api.method(
    "PUT",
    "/nodes/{node}/dns",
    having("/nodes/{node}", "Sys.Modify"),
    {"search": Prop(), "dns1": _SERVER, "dns2": _SERVER, "dns3": _SERVER},
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


@api.method("DELETE", "/nodes/{node}/subscription", having("/nodes/{node}", "Sys.Modify"))
def delete_subscription(call: Call) -> None:
    """Do nothing: the node has no subscription."""
