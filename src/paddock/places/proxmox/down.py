"""Planning `down`: destroy a machine only if a pet owns the state, and report it gone only if it is."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.places import MachineWant
from paddock.places.proxmox import pet as pets
from paddock.places.proxmox.actions import MOUNT_KEY, Destroy, Detach
from paddock.places.proxmox.cannot import CannotPlan
from paddock.places.proxmox.cattle import check_no_newer_machine, check_not_under_ha, check_unprotected, stop_step
from paddock.places.proxmox.mark import Role
from paddock.places.proxmox.seen import LxcContainer, Mount, ProxmoxSeen
from paddock.plan.step import Risk, Step


def check_is_down(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse to report an agent as down while a container may use its state: marks can be edited or lost."""
    states = {pet.vmid: state for pet in pets.owners_of_state(want, seen) if (state := pets.state_in(want, pet))}
    if not states and (lost := pets.lost_pet(want, seen)) is not None:
        raise pets.lost_pet_refusal(want, lost)
    check_no_newer_machine(want, seen)
    for owner, state in states.items():
        for user in seen.users_of(state.volume):
            if user.vmid == owner or not any(mount.path and mount.volume == state.volume for mount in user.mounts):
                continue
            whose = (
                f"is marked as the machine of {user.mark.agent.in_words}"
                if user.mark and user.mark.agent
                else "is not marked"
            )
            raise CannotPlan(
                f"{user.name} mounts {state.volume}, the state of {want.agent}, but {whose}",
                pets.machine_mark_hint(want, user),
                code="down.unknown-user",
            )


def down_steps(cattle: LxcContainer, seen: ProxmoxSeen) -> Iterator[Step]:
    """Yield the steps that remove the machine; refuse unless a pet owns every volume but its root disk."""
    owners = {pet.vmid for pet in seen.with_role(Role.PET)}
    check_unprotected(cattle, "the plan destroys it")
    check_not_under_ha(cattle, "the plan destroys it")
    if "parent" in cattle.config:
        raise CannotPlan(
            f"{cattle.name} has snapshots, which also hold the state; destroying the machine would leave them behind",
            "delete its snapshots first",
            code="down.snapshots",
        )
    for mount in cattle.mounts:
        if mount.key == "rootfs" or mount.is_bind:
            continue
        if mount.owner == cattle.vmid:
            raise CannotPlan(
                f"{cattle.name} owns {mount.volume} ({mount.key}), which would be destroyed with it",
                "move that volume to another container first",
                code="down.owns-volume",
            )
        if mount.owner is not None and mount.owner in seen.hidden.members:
            raise CannotPlan(
                f"{cattle.name} has {mount.volume} ({mount.key}), and the token lacks VM.Audit on its owner,"
                f" container {mount.owner}",
                pets.reading_hint(mount.owner),
                code="down.owner-hidden",
            )
        if mount.owner is not None and (where := seen.where(mount.owner)) is not None:
            raise CannotPlan(
                f"{cattle.name} has {mount.volume} ({mount.key}), whose owner, container {mount.owner}, is {where}",
                "the owner of a state and its machine belong on one node: `paddock plan` says how to get there",
                code="down.owner-on-another-node",
            )
        if mount.owner not in owners:
            raise CannotPlan(
                f"{cattle.name} has {mount.volume} ({mount.key}), which no pet owns",
                _owner_hint(mount, seen),
                code="down.volume-without-pet",
            )
    if cattle.running:
        yield stop_step(cattle, "the machine is running")
    # A volume that is detached with the next stop is not in the configuration any more, and unused afterwards.
    if any(mount.key != "rootfs" for mount in cattle.mounts) or MOUNT_KEY in cattle.pending:
        title = f"detach the state from machine {cattle.vmid}"
        yield Step("cattle.detach", title, "the state is kept", Detach(cattle.vmid))
    title = f"destroy machine {cattle.vmid}"
    yield Step("cattle.destroy", title, "the machine owns only its root disk", Destroy(cattle.vmid), Risk.RECREATES)


def _owner_hint(mount: Mount, seen: ProxmoxSeen) -> str:
    """Return a hint for a volume whose owner is not a pet: the volume may hold an agent's state."""
    owner = seen.containers.get(mount.owner or 0)
    if owner is None:
        return f"it may hold an agent's state: find container {mount.owner}, which owns it, and let the token see it"
    if owner.newer_mark:
        return f"a newer Paddock wrote the mark of {owner.name}, which owns it: {pets.NEWER_HINT}"
    if owner.mark is None:
        return f"{owner.name} owns it and may be a pet that lost its mark; {pets.pet_mark_hint(owner)}"
    return f"{owner.name} owns it: move it to a pet first, because it may hold an agent's state"
