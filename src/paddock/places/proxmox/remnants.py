"""What Paddock has on a node that no agent of the file uses: agents that left the file, and interrupted builds."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from paddock.places import Remnant
from paddock.places.proxmox import cache, pet, template
from paddock.places.proxmox.identity import Holding
from paddock.places.proxmox.mark import Mark, Role
from paddock.places.proxmox.seen import LxcContainer, ProxmoxSeen
from paddock.spec.agent_id import AgentId


def remnants(project: str, agents: Collection[str], seen: ProxmoxSeen) -> list[Remnant]:
    """Return what the project has on the node besides its agents in the file, and builders that no run uses."""
    left = sorted(each for each in _known(seen) if each.project == project and each.name not in agents)
    builders = [c for c in template.builders(seen) if seen.claim_of_another(c) is None]
    return [*(_agent(each, seen) for each in left), *(_builder(c, c.mark) for c in builders if c.mark)]


def _known(seen: ProxmoxSeen) -> Iterator[AgentId]:
    """Return the agents that have a volume in a pet or a machine."""
    found: set[AgentId | None] = {mark.agent for c in seen.with_role(Role.CATTLE) if (mark := c.mark)}
    for mount in (m for c in seen.with_role(Role.PET) for m in c.mounts if m.owner == c.vmid):
        found |= {pet.agent_of(mount), cache.agent_of(mount)}
    return (each for each in found if each)


def _agent(agent: AgentId, seen: ProxmoxSeen) -> Remnant:
    machine = next(iter(seen.machines_of(agent)), None)
    states = [
        mount.volume for owner in Holding.of(agent, seen).pets if (mount := owner.mount_at(pet.path_in_pet(agent)))
    ]
    return Remnant(
        name=agent.name,
        machine=str(machine.vmid) if machine else agent.name,
        status=machine.status if machine else "absent",
        state=", ".join(states) or "none",
    )


def _builder(container: LxcContainer, mark: Mark) -> Remnant:
    return Remnant(
        name=f"builder of template {mark.label or '-'} {mark.template or '-'}",
        machine=str(container.vmid),
        status=container.status,
        state="none",
        is_agent=False,
    )
