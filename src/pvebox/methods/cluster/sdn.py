"""The methods below /cluster/sdn: the vnets."""

from __future__ import annotations

from typing import Any

from pvebox.api.routes import Call, anybody, api


@api.method("GET", "/cluster/sdn/vnets", anybody)
def vnets(call: Call) -> list[dict[str, Any]]:
    """Return the vnets that the caller may see, with their zones."""
    return [
        {"vnet": name, "zone": zone, "type": "vnet"}
        for name, zone in sorted(call.cluster.vnets.items())
        if call.allows(f"/sdn/zones/{zone}/{name}", "SDN.Audit", "SDN.Use", any_of=True)
    ]
