"""Checks of an agent's machine and state against the configuration of the node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paddock.file.agent_id import AgentId
from paddock.places.contract import Finding, MachineWant
from paddock.places.proxmox.actions import CannotPlan
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen
from paddock.places.proxmox.pet.plan import Pet, check_reachable, find_pet
from paddock.places.proxmox.rename.identity import as_renamed


def findings(want: MachineWant, seen: ProxmoxSeen) -> Sequence[Finding]:
    """Check that the marked machine runs, and that its pet alone owns the state it mounts."""
    seen, former = as_renamed(want, seen)
    machines = seen.cattle_of(want.id)
    marked = former.agent if former and former.machine else want.id
    return [_machine(want, marked, machines), _owner(want, seen, machines)]


def notes(want: MachineWant, seen: ProxmoxSeen) -> str:
    """Return the notes of the machine and of its pet."""
    pet = _pet(want, seen)
    containers = [*seen.cattle_of(want.id), *([pet.container] if isinstance(pet, Pet) else [])]
    return "\n".join(container.notes for container in containers)


def _machine(want: MachineWant, marked: AgentId, machines: Sequence[LxcContainer]) -> Finding:
    if not machines:
        return Finding("machine", False, f"no container is marked as the machine of {want.agent}", "run `paddock up`")
    if len(machines) > 1:
        names = " and ".join(each.name for each in machines)
        hint = "remove the mark from the notes of all but one"
        return Finding("machine", False, f"{names} are marked as the machine of {want.agent}", hint)
    machine = machines[0]
    whose = want.agent if marked == want.id else marked.in_words
    evidence = f"{machine.name} is marked as the machine of {whose} and is {machine.status}"
    return Finding("machine", machine.running, evidence, None if machine.running else "run `paddock up`")


def _owner(want: MachineWant, seen: ProxmoxSeen, machines: Sequence[LxcContainer]) -> Finding:
    pet = _pet(want, seen)
    if isinstance(pet, CannotPlan):
        return Finding("state.owner", False, pet.refusal.reason, pet.refusal.hint)
    if pet is None:
        try:
            check_reachable(want, seen)
        except CannotPlan as cannot:
            return Finding("state.owner", False, cannot.refusal.reason, cannot.refusal.hint)
    if pet is None or pet.state is None:
        return Finding("state.owner", False, f"no pet has a volume of {want.agent}", "run `paddock up`")
    wrong = list(_dangers(want, seen, pet, pet.state.volume, machines))
    if wrong:
        return Finding("state.owner", False, "\n".join(wrong), "`paddock plan` shows what can be done")
    return Finding("state.owner", True, f"{pet.state.volume} belongs to {pet.container.name}, stopped and protected")


def _dangers(
    want: MachineWant, seen: ProxmoxSeen, pet: Pet, volume: str, machines: Sequence[LxcContainer]
) -> Iterator[str]:
    container = pet.container
    if container.running:
        yield f"{container.name} is the pet and is running"
    if not container.flag("protection"):
        yield f"{container.name} is the pet and is not protected"
    if container.flag("onboot"):
        yield f"{container.name} is the pet and would start with the node"
    for machine in machines:
        if not any(mount.volume == volume and mount.path == want.state_path for mount in machine.mounts):
            yield f"{machine.name} does not mount {volume} at {want.state_path}"
    own = {container.vmid, *(machine.vmid for machine in machines)}
    for other in seen.users_of(volume):
        if other.vmid not in own:
            yield f"{other.name} also mounts {volume}"


def _pet(want: MachineWant, seen: ProxmoxSeen) -> Pet | CannotPlan | None:
    try:
        return find_pet(want, seen)
    except CannotPlan as refusal:
        return refusal
