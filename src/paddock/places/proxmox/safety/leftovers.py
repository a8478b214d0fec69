"""Leftovers: containers that runs did not finish, and agents that are no longer in the file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from paddock.file.agent_id import AgentId
from paddock.places.contract import MachineWant, Remnant
from paddock.places.proxmox.actions import CannotPlan, Destroy, DestroySpare, Release, RemovePet
from paddock.places.proxmox.archive.plan import clear_steps
from paddock.places.proxmox.machine.plan import check_not_under_ha, stop_step
from paddock.places.proxmox.node.notes import AGAIN, Mark, Role
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen
from paddock.places.proxmox.pet import cache
from paddock.places.proxmox.pet import plan as pet
from paddock.places.proxmox.pet.plan import pets_for
from paddock.places.proxmox.rename.identity import Holding
from paddock.places.proxmox.template import plan as template
from paddock.plan.step import Risk, Step


def clear_machines(want: MachineWant, seen: ProxmoxSeen) -> tuple[list[Step], ProxmoxSeen]:
    """Return the steps that destroy unfinished machines, and the observation without them.

    Refuse while another run is at work on a machine of the agent.
    """
    for machine in seen.machines_of(want.id):
        if (claim := seen.claim_of_another(machine)) is not None:
            raise CannotPlan(claim.over(machine.name), AGAIN, code="machine.claimed")
    left = [machine for machine in seen.machines_of(want.id) if machine.unsettled]
    return [step for machine in left for step in _destroy(machine)], seen.without(left)


def _destroy(machine: LxcContainer) -> Iterator[Step]:
    reason = "the run that created it was interrupted before it got the state"
    check_not_under_ha(machine, "it is unfinished")
    if machine.running:
        yield stop_step(machine, reason)
    title = f"destroy the unfinished machine {machine.vmid}"
    yield Step("cattle.clear", title, reason, Destroy(machine.vmid), Risk.RECREATES)


def release(containers: Iterable[LxcContainer | None], seen: ProxmoxSeen) -> Iterator[Step]:
    """Yield the steps that remove claims whose run has ended, or has left them at an earlier attempt.

    This computer knows that the run has ended. Other computers would wait until the claim expires.
    """
    for container in containers:
        if container and seen.abandoned_claim(container):
            title = f"remove a claim from {container.name}"
            reason = "its run has ended, and runs on other computers would wait for it"
            yield Step("claim.release", title, reason, Release(container.vmid), needs_place_lock=True)


def clear_readers(want: MachineWant, seen: ProxmoxSeen) -> tuple[list[Step], ProxmoxSeen]:
    """Return the steps that remove the readers and spares of interrupted runs, and the observation without them."""
    steps = list(clear_steps(want.id, seen))
    gone = [seen.containers[step.action.vmid] for step in steps if isinstance(step.action, Destroy | DestroySpare)]
    # Their numbers stay taken: a container that this plan creates there may be in another pool.
    return steps, replace(seen.without(gone), taken=seen.taken) if gone else seen


def clear_pets(want: MachineWant, seen: ProxmoxSeen) -> tuple[list[Step], ProxmoxSeen]:
    """Return the steps that remove surplus unfinished pets, and the observation without them.

    An unfinished pet is kept if the agent has no other: the one that the file names, or the one with the lowest number.
    Refuse while another run is creating one. Beside a finished pet, that run loses and removes its own (`settle.py`).
    """
    pets = sorted(pets_for(want.id, seen), key=lambda pet: pet.vmid)
    left = [pet for pet in pets if pet.unsettled]
    claimed = {pet.vmid: claim for pet in left if (claim := seen.claim_of_another(pet)) is not None}
    if claimed and len(left) == len(pets):
        pet = next(pet for pet in left if pet.vmid in claimed)
        raise CannotPlan(claimed[pet.vmid].over(pet.name), AGAIN, code="pet.being-created")
    if left and len(left) == len(pets):
        asked = want.spec.state.pet.vmid
        left.remove(next((pet for pet in left if pet.vmid == asked), left[0]))
    steps = [
        Step(
            "pet.clear",
            f"remove the unfinished pet {pet.vmid}, which is empty",
            "the run that created it was interrupted, and another pet has the state",
            RemovePet(pet.vmid, want.id),
            Risk.RECREATES,
            needs_place_lock=True,
        )
        for pet in left
        if pet.vmid not in claimed
    ]
    # Their numbers stay taken: a container that this plan creates there would be in another pool.
    return steps, replace(seen.without(left), taken=seen.taken) if left else seen


def remnants(project: str, agents: Collection[str], seen: ProxmoxSeen) -> list[Remnant]:
    """Return the project's agents on the node that the file does not have, and builders that no run uses."""
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
