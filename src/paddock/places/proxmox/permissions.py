"""The capability ``permissions`` of a node: what its token may see and do."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.frozen import frozen
from paddock.places import MachineWant
from paddock.places.proxmox import privileges, visibility
from paddock.places.proxmox.client import Client
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
        return privileges.as_lines(privileges.missing(wanted, held))
