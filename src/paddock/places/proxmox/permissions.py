"""The capability ``permissions`` of a node: what its token may see and do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paddock.frozen import frozen
from paddock.places import MachineWant
from paddock.places.proxmox import privileges, sdn, visibility
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.privileges import Need
from paddock.places.proxmox.seen import ProxmoxSeen
from paddock.plan.actions import Action
from paddock.plan.step import Refusal
from paddock.spec.models import ProxmoxSpec


@frozen
class NodePermissions:
    """Reads the token's permissions from the node."""

    client: Client
    node: ProxmoxSpec

    def hidden_machines(self, want: MachineWant, seen: ProxmoxSeen) -> Sequence[Refusal]:
        return list(visibility.refusals(self.client, self.node, want, seen))

    def missing(self, actions: Sequence[Action], seen: ProxmoxSeen) -> Sequence[str]:
        wanted = list(privileges.needed(actions, self.node, seen))
        held = self.client.get("/access/permissions") if wanted else {}
        return privileges.as_lines(privileges.missing(self._in_zones(wanted), held))

    def _in_zones(self, wanted: Sequence[Need]) -> Sequence[Need]:
        """Return the needs with the paths of SDN vnets. A name of which the token sees nothing may be one."""
        found, zones = [], None
        for need in wanted:
            if need.path.startswith(f"{sdn.LOCAL}/"):
                zones = sdn.zones(self.client) if zones is None else zones
                bridge, _, tag = need.path.removeprefix(f"{sdn.LOCAL}/").partition("/")
                path = sdn.path(bridge, zones)
                if sdn.may_be_vnet(self.client, bridge, zones):
                    path = f"{sdn.TOP}/ZONE/{bridge}, or on {path} if it is no SDN vnet"
                found.append(replace(need, path="/".join(filter(None, (path, tag)))))
            else:
                found.append(need)
        return found
