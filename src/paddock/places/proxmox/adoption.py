"""The capability ``adoption`` of a node."""

from __future__ import annotations

from paddock.frozen import frozen
from paddock.guests import Guest, Unreachable
from paddock.places import Description, MachineWant
from paddock.places.proxmox import restart_note
from paddock.places.proxmox.mark import Role
from paddock.places.proxmox.pet import holds_adopted_state
from paddock.places.proxmox.planner import NodePlanner
from paddock.places.proxmox.reach import HostKeyTrust, Reacher
from paddock.places.proxmox.seen import ProxmoxSeen
from paddock.plan.machine import AdoptTarget, MachinePlan
from paddock.spec.agent_id import AgentId


@frozen
class NodeAdoption:
    """Containers and volumes of one node that somebody else created."""

    planner: NodePlanner
    reacher: Reacher

    def describe(self, agent: AgentId, target: AdoptTarget, seen: ProxmoxSeen) -> Description:
        return self.planner.describe(agent, target, seen)

    def plan(self, want: MachineWant, target: AdoptTarget, seen: ProxmoxSeen) -> MachinePlan:
        return self.planner.adopt(want, target, seen)

    def visit(self, want: MachineWant, target: AdoptTarget, seen: ProxmoxSeen) -> Guest | None:
        container = seen.containers.get(target.machine or 0)
        if container is None:
            return None
        begun = any(holds_adopted_state(want, pet) for pet in seen.with_role(Role.PET))
        if not container.running and (begun or restart_note.is_in(container.notes)):
            return None  # an earlier run examined and stopped it, and was interrupted
        if not container.running:
            raise Unreachable(f"{container.name} is stopped", hint="start it; `adopt` stops it only if it has to")
        keys = container.mark.host_keys if container.mark else ()
        known = HostKeyTrust(keys, want.spec.machine.host_key, adopted_by=want.agent)
        return self.reacher.visit(f"container-{container.vmid}", container.vmid, known)
