"""The pet's part of a plan: who owns the state, and how large it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paddock.places import MachineWant
from paddock.places.proxmox.actions import (
    STATE_VOLUME,
    AddVolume,
    Configure,
    CreatePet,
    DeleteVolume,
    DestroyPet,
    GrowVolume,
)
from paddock.places.proxmox.cache import cache_in
from paddock.places.proxmox.cannot import CannotPlan
from paddock.places.proxmox.claim import Claim
from paddock.places.proxmox.mark import Mark, Role
from paddock.places.proxmox.seen import LxcContainer, Mount, ProxmoxSeen
from paddock.plan.actions import Ref
from paddock.plan.step import Risk, Step

_FIRST_KEY: Final = "mp0"


def path_in_pet(agent: str) -> str:
    """Where a pet would mount an agent's volume: it never does, but this says whose volume it is."""
    return f"/var/lib/paddock/{agent}"


def agent_of(mount: Mount) -> str | None:
    """The agent whose volume it is, by the path a pet would mount it at."""
    top, _, agent = (mount.path or "").rpartition("/")
    return agent if top == path_in_pet("x").rpartition("/")[0] else None


def state_in(want: MachineWant, container: LxcContainer) -> Mount | None:
    """The agent's state among a container's own volumes: the one the file names, or the one at the agent's path."""
    named = want.spec.state.volume
    if named is None:
        return container.mount_at(path_in_pet(want.agent))
    return next((m for m in container.mounts if m.volume == named and m.owner == container.vmid), None)


@dataclass(frozen=True)
class Pet:
    """The container that owns an agent's state, as it was seen."""

    container: LxcContainer
    state: Mount | None  # None: it has no volume for this agent yet

    @property
    def vmid(self) -> int:
        return self.container.vmid


def find_pet(want: MachineWant, seen: ProxmoxSeen) -> Pet | None:
    """Return the agent's pet; refuses when it is not clear which that is."""
    asked, volume = want.spec.state.pet.vmid, want.spec.state.volume
    owners = [c for c in seen.with_role(Role.PET) if state_in(want, c)]
    lost = lost_pet(want, seen)
    if lost is not None and not owners:
        raise lost_pet_refusal(want, lost)
    if volume is not None and not owners:
        raise CannotPlan(
            f"no pet has {volume}, which the file names as the state of {want.agent}",
            f"`paddock adopt {want.agent} --state {volume}` gives it to one",
            code="pet.without-named-volume",
        )
    if len(owners) > 1 and asked not in [c.vmid for c in owners]:
        numbers = ", ".join(str(c.vmid) for c in owners)
        raise CannotPlan(
            f"several pets have a volume of {want.agent}: {numbers}",
            "write state.pet to say which one",
            code="pet.several",
        )
    if asked is None:
        return Pet(owners[0], state_in(want, owners[0])) if owners else None
    if owners and asked not in [c.vmid for c in owners]:
        raise CannotPlan(
            f"{owners[0].name} has the state of {want.agent}, the file says state.pet: {asked}",
            f"write {owners[0].vmid}, or move the state first",
            code="pet.other-number",
        )
    named = seen.containers.get(asked)
    if named is not None and named.has(Role.PET):
        return Pet(named, state_in(want, named))
    if asked in seen.taken:
        raise number_taken(asked, seen)
    return None


def machine_mark_hint(want: MachineWant, container: LxcContainer) -> str:
    """How to make a container the agent's machine again whose mark was removed or changed."""
    mark = Mark(Role.CATTLE, want.agent)
    return f"if it is the machine of {want.agent}, write this line into its notes{_instead(container)}: {mark}"


def lost_pet(want: MachineWant, seen: ProxmoxSeen) -> LxcContainer | None:
    """A container that looks like the agent's pet, but whose mark someone removed or changed."""
    path = path_in_pet(want.agent)
    for container in seen.containers.values():
        named = not container.has(Role.PET) and container.config.get("hostname") == _name(want)
        owns = container.mark is None and not container.running and container.mount_at(path) is not None
        owns = owns and container.vmid != want.spec.machine.vmid  # which an adoption gave the path, and was cut off
        if named or owns:
            return container
    return None


def lost_pet_refusal(want: MachineWant, container: LxcContainer) -> CannotPlan:
    """The refusal of everything that would go on without a pet that is there."""
    return CannotPlan(
        f"{container.name} looks like the pet of {want.agent} but has no readable mark",
        pet_mark_hint(container),
        code="pet.lost-mark",
    )


def pet_mark_hint(container: LxcContainer) -> str:
    """How to make a container a pet again whose mark was removed or changed; the line is at the end, to be copied."""
    return f"if it is one, write this line into its notes{_instead(container)}: {Mark(Role.PET)}"


def _instead(container: LxcContainer) -> str:
    """Two lines would be as bad as none."""
    if "paddock: " not in container.notes:
        return ""
    return ", instead of what begins with `paddock:` there (unless a newer Paddock wrote that)"


def taken_number_hint(vmid: int, seen: ProxmoxSeen) -> str:
    """What a person can do about a number for a pet that is taken; one that may have been a pet gets its mark back."""
    there = seen.containers.get(vmid)
    if there is not None and there.mark is None and not there.running and not there.lock:
        volumes = [mount.volume for mount in there.mounts if mount.key != "rootfs" and not mount.is_bind]
        if volumes or not Mark.readable(there.notes):
            return f"`paddock adopt` takes it into the file's care if it never was a pet; {pet_mark_hint(there)}"
    return seen.taken_number_hint(vmid)


def number_taken(vmid: int, seen: ProxmoxSeen) -> CannotPlan:
    """The refusal of a number for a pet that another container has."""
    return CannotPlan(
        f"state.pet: {vmid} is taken, and not by a pet", taken_number_hint(vmid, seen), code="pet.number-taken"
    )


def check_pet(want: MachineWant, pet: Pet, seen: ProxmoxSeen) -> None:
    """Refuse what would endanger the state."""
    container = pet.container
    if pet.state:
        _check_named(want, container, pet.state)
    elif holds_adopted_state(want, container):
        raise _adoption_unfinished(want, container)
    claim = Claim.from_notes(container.notes)
    if claim and claim.blocks(seen.holder, seen.now):
        raise CannotPlan(
            f"{claim.holder} is deleting {container.name}",
            f"wait until {claim.until:%H:%M:%S} UTC",
            code="pet.being-deleted",
        )
    check_stopped(container)
    if pet.state is None:
        loose = [m.volume for m in container.mounts if m.key.startswith("unused")]
        if loose:
            raise CannotPlan(
                f"{container.name} has no volume for {want.agent}, but unused ones: {', '.join(loose)}",
                f"`paddock adopt {want.agent} --state {loose[0]}` takes one into use as the state of {want.agent};"
                " if none of them is, give them to another container, because each may hold a memory",
                code="pet.unused-volumes",
            )
    elif pet.state.size is not None and want.spec.state.size < pet.state.size:
        raise CannotPlan(
            f"the state volume has {pet.state.size}, the file says {want.spec.state.size}",
            f"nothing shrinks: write state.size: {pet.state.size}",
            code="state.shrink",
        )


def _adoption_unfinished(want: MachineWant, container: LxcContainer) -> CannotPlan:
    return CannotPlan(
        f"{container.name} was about to get the state of {want.agent}",
        "an adoption was cut off: run the same `paddock adopt` again",
        code="pet.unfinished-adoption",
    )


def check_stopped(container: LxcContainer) -> None:
    """Refuse a pet that could write to the state itself."""
    if container.running:
        raise CannotPlan(
            f"{container.name} is a pet and runs", "stop it: a pet only owns the volume", code="pet.running"
        )
    if container.flag("onboot"):
        raise CannotPlan(
            f"{container.name} is a pet and would start with the node", "set its onboot to 0", code="pet.starts-on-boot"
        )


def holds_adopted_state(want: MachineWant, container: LxcContainer) -> bool:
    """Whether an adoption gives, or gave, the agent's volume to this pet."""
    return container.mark is not None and want.agent in container.mark.adopted_agents


def _check_named(want: MachineWant, container: LxcContainer, state: Mount) -> None:
    """Refuse a volume that the file names and that is another agent's, or not in use, or not the only one."""
    if agent_of(state) not in (None, want.agent):
        raise CannotPlan(
            f"{state.volume} is the state of {agent_of(state)}",
            "name another state.volume, or none",
            code="state.of-another-agent",
        )
    if state.path is None:
        raise CannotPlan(
            f"{container.name} has {state.volume}, but not in use ({state.key})",
            f"`paddock adopt {want.agent} --state {state.volume}` takes it into use",
            code="state.unused",
        )
    known = container.mount_at(path_in_pet(want.agent))
    if known is not None and known.volume != state.volume:
        raise CannotPlan(
            f"{container.name} has {known.volume} as the state of {want.agent}, the file says {state.volume}",
            f"write {known.volume}, or leave state.volume out",
            code="state.other-volume",
        )


def check_no_unfinished_forget(want: MachineWant, seen: ProxmoxSeen) -> None:
    """What a person wanted gone does not come back because a run was cut off."""
    left = pet_with_unfinished_forget(want, seen)
    if left is not None:
        raise CannotPlan(
            f"{left.name} was about to forget the state of {want.agent} when a run was cut off",
            "run `paddock forget` again first",
            code="pet.unfinished-forget",
        )


def pet_with_unfinished_forget(want: MachineWant, seen: ProxmoxSeen) -> LxcContainer | None:
    """The pet that a volume of the agent was being deleted of."""
    pets = seen.with_role(Role.PET)
    return next(
        (c for c in pets if c.mark and c.mark.unfinished_forget and c.mark.unfinished_forget[0] == want.agent), None
    )


def check_no_lost_pet(want: MachineWant, cattle: LxcContainer | None, seen: ProxmoxSeen) -> None:
    """A pet whose mark or volume someone removed would otherwise be replaced by one without memory."""
    for container in seen.containers.values():
        if container.has(Role.PET) and holds_adopted_state(want, container):
            raise _adoption_unfinished(want, container)
    if (lost := lost_pet(want, seen)) is not None:
        raise lost_pet_refusal(want, lost)
    if (name := _name(want)) in seen.elsewhere:
        raise CannotPlan(
            f"{name} on node {seen.elsewhere[name]} looks like the pet of {want.agent}",
            "a new pet would have no memory: name that node in the file, or migrate the pet to this one",
            code="pet.on-another-node",
        )
    if cattle is not None:
        raise CannotPlan(
            f"{cattle.name} is the machine of {want.agent}, but no pet has its state",
            "a new pet would have no memory: look for the volume among the containers first",
            code="pet.missing",
        )


def pet_steps(
    want: MachineWant, pet: Pet | None, vmid: int, *, base: str, storage: str
) -> tuple[list[Step], str | Ref]:
    """Return the steps to a protected pet with the agent's volume, and the volume's name."""
    return list(_steps(want, pet, vmid, base, storage)), pet.state.volume if pet and pet.state else STATE_VOLUME


def _steps(want: MachineWant, pet: Pet | None, vmid: int, base: str, storage: str) -> Iterator[Step]:
    size = want.spec.state.size
    backup = int(want.spec.state.backup)
    value = f"{want.spec.state.storage or storage}:{size.gib},mp={path_in_pet(want.agent)},backup={backup}"
    if pet is None:
        params = {**_params(want, base, storage, Mark(Role.PET)), _FIRST_KEY: value}
        title = f"create pet {vmid} with a state volume of {size}"
        yield Step("pet.create", title, "the agent has no state yet", CreatePet(vmid, params), needs_place_lock=True)
    elif pet.state is None:
        key = pet.container.free_key
        title = f"give pet {pet.vmid} a state volume of {size}"
        yield Step(
            "pet.volume", title, f"it has none for {want.agent}", AddVolume(pet.vmid, key, value), needs_place_lock=True
        )
    elif not pet.container.flag("protection"):
        action = Configure(pet.vmid, {"protection": 1})
        yield Step("pet.protect", f"protect pet {pet.vmid}", "its protection is off", action)


def empty_pet_step(want: MachineWant, vmid: int, *, base: str, storage: str) -> Step:
    """The step to a pet that is to get a volume which is there already."""
    params = _params(want, base, storage, Mark(Role.PET, adopted=want.agent))
    return Step(
        "pet.create", f"create pet {vmid}", "it is to own the state", CreatePet(vmid, params), needs_place_lock=True
    )


def _params(want: MachineWant, base: str, storage: str, mark: Mark) -> dict[str, str | int]:
    return {
        "ostemplate": base,
        "hostname": _name(want),
        "description": str(mark),
        "tags": "paddock",
        "unprivileged": 1,
        "features": "nesting=1",  # it never runs; without, Proxmox warns about its systemd
        "protection": 1,
        "onboot": 0,
        "cores": want.spec.state.pet.cores,
        "memory": want.spec.state.pet.memory.mib,
        "rootfs": f"{storage}:{want.spec.state.pet.disk.gib}",
    }


def grow_step(want: MachineWant, pet: Pet | None) -> Step | None:
    """The step that makes the state volume as large as the file says."""
    if pet is None or pet.state is None or pet.state.size is None or pet.state.size >= want.spec.state.size:
        return None
    size = want.spec.state.size
    return Step(
        "pet.grow",
        f"grow the state volume from {pet.state.size} to {size}",
        "the file says so",
        GrowVolume(pet.vmid, pet.state.key, str(size)),
    )


def difference_notes(want: MachineWant, pet: Pet) -> Iterator[str]:
    """What of the state differs from the file and is left as it is."""
    if pet.state is None:
        return
    storage, there = want.spec.state.storage, pet.state.volume.partition(":")[0]
    if storage is not None and storage != there:
        yield f"the state is on {there}, the file says {storage}: left as it is"
    backed_up = pet.state.options.get("backup") == "1"
    if "backup" in want.spec.state.model_fields_set and want.spec.state.backup != backed_up:
        said = "has" if backed_up else "lacks"
        yield f"{pet.state.volume} {said} backup=1 in pet {pet.vmid}, the file says otherwise: left as it is"


def forget_steps(want: MachineWant, pet: Pet | None, seen: ProxmoxSeen) -> Iterator[Step]:
    """The steps to no state; refused while any other container names one of the volumes."""
    left = pet_with_unfinished_forget(want, seen)
    if left is not None and (pet is None or pet.vmid != left.vmid):
        yield from _forget_in(want, left, None, seen)
    if pet is not None and pet.state is not None:
        _check_named(want, pet.container, pet.state)
        yield from _forget_in(want, pet.container, pet.state, seen)


def _forget_in(want: MachineWant, pet: LxcContainer, state: Mount | None, seen: ProxmoxSeen) -> Iterator[Step]:
    """The steps to a pet without anything of the agent, or to no pet, if nothing else is on it."""
    forgets = pet.mark.unfinished_forget if pet.mark else None
    cut_off = forgets[1] if forgets and forgets[0] == want.agent else None
    cache = cache_in(want.agent, pet)
    named = (state.volume if state else None, cache.volume if cache else None, cut_off)
    volumes = tuple(dict.fromkeys(volume for volume in named if volume))
    _check_may_forget(want, pet, volumes, seen)
    reason = "a run was cut off in the middle of it" if cut_off else "it is to be forgotten"
    if all(mount.key == "rootfs" or mount.volume in volumes for mount in pet.mounts):
        title = f"destroy pet {pet.vmid} with {' and '.join(volumes)} and all that {want.agent} has learned"
        yield Step("pet.destroy", title, reason, DestroyPet(pet.vmid, want.agent, volumes), Risk.RECREATES)
        return
    if cut_off:
        title = f"delete what is left of {cut_off} of pet {pet.vmid}"
        yield _delete(want, pet.vmid, cut_off, title, reason)
    if cache and cache.volume != cut_off:
        yield _delete(want, pet.vmid, cache.volume, f"delete {cache.volume} of pet {pet.vmid}, a cache", reason)
    if state and state.volume != cut_off:
        title = f"delete {state.volume} of pet {pet.vmid} and all that {want.agent} has learned"
        yield _delete(want, pet.vmid, state.volume, title, reason)


def _check_may_forget(want: MachineWant, pet: LxcContainer, volumes: Sequence[str], seen: ProxmoxSeen) -> None:
    """Refuse while a volume is in use, or the pet is at something else."""
    for volume in volumes:
        users = [c for c in seen.users_of(volume) if c.vmid != pet.vmid]
        if users:
            names = ", ".join(user.name for user in users)
            marked = all(user.has(Role.CATTLE) for user in users)
            hint = f"nothing is deleted while it has the volume; {machine_mark_hint(want, users[0])}"
            hint = "run `paddock down` first" if marked else hint
            raise CannotPlan(f"{names} still names {volume}", hint, code="forget.volume-in-use")
    if pet.running:
        raise CannotPlan(f"{pet.name} runs", "stop it first", code="forget.pet-running")
    if "parent" in pet.config:
        # A volume that a snapshot names stays when it is taken out of the configuration, and is nowhere to be seen.
        raise CannotPlan(
            f"{pet.name} has snapshots, which hold the state too", "delete its snapshots first", code="forget.snapshots"
        )
    forgets = pet.mark.unfinished_forget if pet.mark else None
    if forgets and forgets[0] != want.agent:
        # The mark has room for one volume that is being deleted: a second one would make the first one nobody's.
        raise CannotPlan(
            f"{pet.name} is about to forget the state of {forgets[0]}",
            f"run `paddock forget {forgets[0]}`",
            code="forget.another-unfinished",
        )


def _delete(want: MachineWant, vmid: int, volume: str, title: str, reason: str) -> Step:
    return Step("state.delete", title, reason, DeleteVolume(vmid, want.agent, volume), Risk.RECREATES)


def _name(want: MachineWant) -> str:
    return want.spec.state.pet.name or f"{want.agent}-pet"
