"""The steps that create a pet and its volume, and that bring them to what the file says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paddock.places import MachineWant
from paddock.places.proxmox import pet as pets
from paddock.places.proxmox.actions import (
    STATE_VOLUME,
    AddVolume,
    Configure,
    CreatePet,
    GrowVolume,
    IncludeVolume,
    Params,
    SettlePet,
)
from paddock.places.proxmox.mac import WITH_PLACE
from paddock.places.proxmox.mark import Mark, Role
from paddock.places.proxmox.pet import Pet, path_in_pet
from paddock.places.proxmox.seen import Mount
from paddock.plan.actions import Ref
from paddock.plan.step import Step
from paddock.spec.models import ProxmoxSpec

_FIRST_KEY: Final = "mp0"


def pet_steps(want: MachineWant, pet: Pet | None, vmid: int, node: ProxmoxSpec) -> tuple[list[Step], str | Ref]:
    """Return the steps to a protected pet with the agent's volume, and the volume's name."""
    return list(_steps(want, pet, vmid, node)), pet.state.volume if pet and pet.state else STATE_VOLUME


def _steps(want: MachineWant, pet: Pet | None, vmid: int, node: ProxmoxSpec) -> Iterator[Step]:
    size = want.spec.state.size
    backup = int(want.spec.state.backup)
    value = f"{want.spec.state.storage or node.storage}:{size.gib},mp={path_in_pet(want.id)},backup={backup}"
    if pet is None:
        params = {**_params(want, node, Mark(Role.PET, macs=WITH_PLACE)), _FIRST_KEY: value}
        title = f"create pet {vmid} with a state volume of {size}"
        yield _create(want, title, "the agent has no state yet", vmid, params)
    elif pet.state is None:
        key = pet.container.free_key
        title = f"create a state volume of {size} on pet {pet.vmid}"
        yield Step(
            "pet.volume",
            title,
            f"the pet has none for {want.agent}",
            AddVolume(pet.vmid, key, value),
            needs_place_lock=True,
        )
    elif pet.container.unsettled:
        title, reason = f"finish pet {pet.vmid}", "the run that created it was interrupted"
        yield Step("pet.settle", title, reason, SettlePet(pet.vmid), needs_place_lock=True)
    elif not pet.container.flag("protection"):
        action = Configure(pet.vmid, {"protection": 1})
        yield Step("pet.protect", f"protect pet {pet.vmid}", "its protection is off", action)
    if pet and pet.state and "backup" in want.spec.state.model_fields_set:
        yield from _backup_steps(pet.vmid, pet.state, backup=want.spec.state.backup)


def _backup_steps(vmid: int, state: Mount, *, backup: bool) -> Iterator[Step]:
    if backup == (state.options.get("backup") == "1"):
        return
    verb = "include the state in" if backup else "leave the state out of"
    title = f"{verb} the backups that Proxmox makes of pet {vmid}"
    yield Step(
        "pet.include",
        title,
        f"the file says state.backup: {str(backup).lower()}",
        IncludeVolume(vmid, state.key, backup),
    )


def empty_pet_step(want: MachineWant, vmid: int, node: ProxmoxSpec) -> Step:
    """Return the step that creates a pet for an existing volume."""
    params = _params(want, node, Mark(Role.PET, adopted=str(want.id), macs=WITH_PLACE))
    return _create(want, f"create pet {vmid}", "a pet must own the state", vmid, params)


def _create(want: MachineWant, title: str, reason: str, vmid: int, params: Params) -> Step:
    named = want.spec.state.pet.vmid or want.throwaway
    action = CreatePet(vmid, params, None if named else want.agent)
    return Step("pet.create", title, reason, action, needs_place_lock=True)


def _params(want: MachineWant, node: ProxmoxSpec, mark: Mark) -> dict[str, str | int]:
    return {
        "ostemplate": node.base.volid,
        "hostname": pets.name_of_pet(want),
        "description": str(mark),
        "tags": "paddock",
        "unprivileged": 1,
        "features": "nesting=1",  # the pet never runs; without nesting Proxmox warns about its systemd
        "protection": 1,
        "onboot": 0,
        "cores": want.spec.state.pet.cores,
        "memory": want.spec.state.pet.memory.mib,
        "rootfs": f"{node.storage}:{want.spec.state.pet.disk.gib}",
        **({"pool": node.pools.state} if node.pools else {}),
    }


def grow_step(want: MachineWant, pet: Pet | None) -> Step | None:
    """Return the step that grows the state volume to the size in the file, if it is smaller."""
    if pet is None or pet.state is None or pet.state.size is None or pet.state.size >= want.spec.state.size:
        return None
    size = want.spec.state.size
    return Step(
        "pet.grow",
        f"grow the state volume from {pet.state.size} to {size}",
        "the file says so",
        GrowVolume(pet.vmid, pet.state.key, str(size)),
    )


def difference_notes(node: ProxmoxSpec, want: MachineWant, pet: Pet) -> Iterator[str]:
    """Yield notes about differences of the pet and the state from the file that are left as they are."""
    yield from _pet_notes(want, pet)
    if pet.state is None:
        return
    adopted = pets.holds_adopted_state(want, pet.container)
    storage, there = want.spec.state.storage or (None if adopted else node.storage), pet.state.storage
    if storage is not None and storage != there:
        yield f"the state is on {there}, but the file says {storage}: left as it is"


def _pet_notes(want: MachineWant, pet: Pet) -> Iterator[str]:
    """Yield notes about keys of the pet that another value was given to: it never runs, and agents may share it."""
    asked, config, root = want.spec.state.pet, pet.container.config, pet.container.mount("rootfs")
    has = {
        "name": (config.get("hostname"), asked.name),
        "cores": (config.get("cores"), asked.cores),
        "memory": (config.get("memory"), asked.memory.mib),
        "disk": (root.size if root else None, asked.disk),
    }
    for key, (found, wanted) in has.items():
        if key in asked.model_fields_set and str(found) != str(wanted):
            yield f"pet {pet.vmid} has {key} {found}, but the file says {wanted}: left as it is"
