"""Taking what is there into the file's care: a machine, and the volume that is to be its state."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from paddock.places import AdoptTarget, Description, MachineWant
from paddock.places.proxmox import cattle as machines
from paddock.places.proxmox import pet as pets
from paddock.places.proxmox import root_work
from paddock.places.proxmox.actions import (
    MOUNT_KEY,
    STATE_VOLUME,
    AdoptMachine,
    AdoptPet,
    Attach,
    Reassign,
)
from paddock.places.proxmox.cannot import CannotPlan
from paddock.places.proxmox.description import describe as describe_containers
from paddock.places.proxmox.mark import Mark, Role
from paddock.places.proxmox.seen import LxcContainer, Mount, ProxmoxSeen
from paddock.plan.actions import Ref
from paddock.plan.machine import MachinePlan
from paddock.plan.step import Step
from paddock.spec.models import ProxmoxSpec
from paddock.spec.sizes import Size

_KEY: Final = re.compile(r"(mp|unused)\d+")


@dataclass(frozen=True)
class _Volume:
    """A volume that is to be a state, and whose configuration names it; None: nobody's."""

    mount: Mount
    at: LxcContainer | None


def describe(node: ProxmoxSpec, agent: str, target: AdoptTarget, seen: ProxmoxSeen) -> Description:
    """Return what the wish is about, as the file would say it."""
    machine = seen.containers.get(target.machine) if target.machine is not None else None
    try:
        volume = _settled(agent, seen) or _find(target, machine, seen)
    except CannotPlan:
        volume = None  # the plan refuses as well, and says why
    owner = seen.containers.get(volume.mount.owner or 0) if volume else None
    is_pet = owner is not None and owner is not machine and (machine is not None or owner.has(Role.PET))
    return describe_containers(
        node,
        agent,
        machine,
        replace(volume.mount, size=_size(volume.mount, seen)) if volume else None,
        owner.vmid if owner and is_pet else None,
    )


def _size(mount: Mount, seen: ProxmoxSeen) -> Size | None:
    """Not every configuration that names a volume tells how large it is."""
    sizes = [m.size for c in seen.users_of(mount.volume) for m in c.mounts if m.volume == mount.volume and m.size]
    return max(sizes, default=None)


def plan(
    node: ProxmoxSpec,
    want: MachineWant,
    target: AdoptTarget,
    seen: ProxmoxSeen,
    ids: Iterator[int],
    left_out: Sequence[str],
) -> MachinePlan:
    """The steps to have it in the file's care; afterwards `up` finds the machine as the file says."""
    if target == AdoptTarget():
        raise CannotPlan(
            "say what to adopt: a container's number, or a volume",
            f"`paddock adopt {want.agent} 105`",
            code="adopt.no-target",
        )
    machine = _machine(want, target, seen)
    volume = _find(target, machine, seen)
    settled = _settled(want.agent, seen)
    if settled and volume and volume.at and volume.mount.volume != settled.mount.volume:
        raise CannotPlan(
            f"{want.agent} has {settled.mount.volume} as its state already; {volume.mount.volume} is another",
            code="adopt.second-state",
        )
    if settled is None and volume is None and target.state is not None:
        raise CannotPlan(
            f"there is no volume {target.state}",
            "`pct config` on the node shows a container's volumes",
            code="adopt.no-volume",
        )
    if machine:
        root_work.check_host_paths(want, seen)
        _check_volumes(want, machine, settled or volume)
    steps, name = _state_steps(node, want, machine, settled, volume, seen, ids)
    if machine:
        moves = [step.action for step in steps if isinstance(step.action, Reassign)]
        moved = next((move.key for move in moves if move.source == machine.vmid), None)
        if moved and machine.running:
            steps.insert(-1, machines.stop_step(machine, "a volume is moved only while nothing has it mounted"))
        steps += _machine_steps(want, machine, name, moved)
    return MachinePlan(steps, notes=list(_notes(machine, left_out)))


def _machine(want: MachineWant, target: AdoptTarget, seen: ProxmoxSeen) -> LxcContainer | None:
    """The container that is to be the agent's machine; refused unless it can be."""
    if target.machine is None:
        return None
    machine = seen.containers.get(target.machine)
    if machine is None:
        where = "is on another node, or a virtual machine" if target.machine in seen.taken else "does not exist"
        raise CannotPlan(
            f"container {target.machine} {where}",
            "machine.node names another node of the cluster",
            code="adopt.no-container",
        )
    _check_adoptable(machine, Mark(Role.CATTLE, want.agent))
    others = [c.name for c in seen.cattle_of(want.agent) if c is not machine]
    if others:
        raise CannotPlan(
            f"{', '.join(others)} is the machine of {want.agent} already",
            "run `paddock down` first",
            code="adopt.second-machine",
        )
    return machine


def _check_adoptable(container: LxcContainer, wanted: Mark) -> None:
    """Refuse a container that cannot be what is wanted of it."""
    mark = container.mark
    if not Mark.readable(container.notes):
        raise CannotPlan(
            f"the notes of {container.name} have a mark that cannot be read",
            "is it another Paddock's?",
            code="adopt.unreadable-mark",
        )
    if mark and (mark.role, mark.agent) != (wanted.role, wanted.agent):
        whose = f"the machine of {mark.agent}" if mark.role is Role.CATTLE else f"a {mark.role} of Paddock"
        raise CannotPlan(f"{container.name} is {whose}", "nothing has two masters", code="adopt.of-another")
    if container.is_template:
        raise CannotPlan(
            f"{container.name} is a template",
            "make a machine from it first, or let Paddock build its own",
            code="adopt.template",
        )
    if container.lock:
        raise CannotPlan(
            f"{container.name} is locked ({container.lock})", "wait for what is at work on it", code="adopt.locked"
        )
    if not container.flag("unprivileged"):
        raise CannotPlan(
            f"{container.name} is privileged, and Paddock's machines are not: the files would have other owners there",
            "restore a backup of it as an unprivileged container first",
            code="adopt.privileged",
        )


def _find(target: AdoptTarget, machine: LxcContainer | None, seen: ProxmoxSeen) -> _Volume | None:
    """The volume that is to be the state: the named one, or the only one that the machine has from elsewhere."""
    if target.state is None:
        volumes = [m for m in machine.mounts if m.path and m.owner is not None] if machine else []
        foreign = [m for m in volumes if machine and m.owner != machine.vmid]
        if len(foreign) > 1 and machine:
            there = ", ".join(f"{m.key} ({m.volume} at {m.path})" for m in foreign)
            raise CannotPlan(
                f"{machine.name} has several volumes: {there}",
                "say which is the state: --state mp0",
                code="adopt.several-volumes",
            )
        return _Volume(foreign[0], machine) if foreign else None
    if _KEY.fullmatch(target.state):
        mount = machine.mount(target.state) if machine else None
        return _Volume(mount, machine) if mount else None
    named = sorted(seen.users_of(target.state), key=lambda c: c is not machine)
    if named:
        mount = next(m for m in named[0].mounts if m.volume == target.state)
        return _Volume(mount, named[0])
    lost = Mount.from_config("", target.state)
    return _Volume(lost, None) if lost.owner in seen.containers else None


def _settled(agent: str, seen: ProxmoxSeen) -> _Volume | None:
    """The state that a pet has for the agent by now."""
    pets_of = [(c, m) for c in seen.with_role(Role.PET) if (m := c.mount_at(pets.path_in_pet(agent)))]
    if len(pets_of) > 1:
        numbers = ", ".join(str(c.vmid) for c, _ in pets_of)
        raise CannotPlan(
            f"several pets have a volume of {agent}: {numbers}",
            "take the mark out of the notes of the others",
            code="adopt.several-pets",
        )
    return _Volume(pets_of[0][1], pets_of[0][0]) if pets_of else None


def _check_volumes(want: MachineWant, machine: LxcContainer, state: _Volume | None) -> None:
    """Refuse a machine with volumes that would go with it, or that nobody would look after."""
    for mount in machine.mounts:
        if mount.key == "rootfs" or mount.owner is None or (state and mount.volume == state.mount.volume):
            continue
        if mount.owner != machine.vmid:
            raise CannotPlan(
                f"{machine.name} also has {mount.volume} ({mount.key}) of container {mount.owner}",
                f"if it is the state, say so with `--state {mount.key}`; a machine of Paddock has no other volumes",
                code="adopt.second-volume",
            )
        at = f" at {mount.path}" if mount.path else ""
        raise CannotPlan(
            f"{machine.name} owns {mount.volume} ({mount.key}{at}), which would go with it: machines come and go",
            f"if it is the state: `paddock adopt {want.agent} {machine.vmid} --state {mount.key}` gives it to a pet;"
            " if not, move it to another container",
            code="adopt.owns-volume",
        )


def _state_steps(
    node: ProxmoxSpec,
    want: MachineWant,
    machine: LxcContainer | None,
    settled: _Volume | None,
    volume: _Volume | None,
    seen: ProxmoxSeen,
    ids: Iterator[int],
) -> tuple[list[Step], str | Ref]:
    """The steps to a pet that has the state, and the volume's name."""
    named = want.spec.state.pet.vmid
    base, storage = node.base.volid, node.storage
    if settled or volume is None:
        pet = pets.Pet(settled.at, settled.mount) if settled and settled.at else pets.find_pet(want, seen)
        if pet:
            pets.check_pet(want, pet, seen)
        else:
            pets.check_no_lost_pet(want, None, seen)
        number = pet.vmid if pet else named or next(ids)
        return pets.pet_steps(want, pet, number, base=base, storage=storage)
    mount, owner = volume.mount, seen.containers.get(volume.mount.owner or 0)
    _check_writers(mount.volume, [machine, owner, volume.at], seen)
    if volume.at is not machine:
        _check_owner(want, mount)
    keeps = owner is not None and owner is not machine
    if keeps and owner and (volume.at is machine or owner.has(Role.PET) or owner.vmid == named or volume.at is None):
        return [_pet_step(want, owner, mount.volume)], mount.volume
    if volume.at is None:
        raise CannotPlan(
            f"no configuration names {mount.volume}, and no container owns it", code="adopt.volume-without-owner"
        )
    return _reassign_steps(node, want, machine, volume.at, mount, seen, ids), STATE_VOLUME


def _check_owner(want: MachineWant, mount: Mount) -> None:
    """Refuse a volume that is the state of another agent."""
    agent = pets.agent_of(mount)
    if agent not in (None, want.agent):
        raise CannotPlan(
            f"{mount.volume} is the state of {agent}",
            "a volume is the state of one agent: name another one with --state",
            code="adopt.state-of-another-agent",
        )


def _pet_step(want: MachineWant, owner: LxcContainer, volume: str) -> Step:
    """The owner of the volume becomes its pet."""
    _check_adoptable(owner, Mark(Role.PET))
    pets.check_stopped(owner)
    mount = next((m for m in owner.mounts if m.volume == volume), None)
    if mount:
        _check_owner(want, mount)
    path = pets.path_in_pet(want.agent)
    key = mount.key if mount and mount.path else owner.free_key
    value = mount.mounted_at(path) if mount else f"{volume},mp={path}"
    title = f"make container {owner.vmid} the pet of {want.agent}, with {volume}"
    return Step(
        "pet.adopt", title, "it owns the state", AdoptPet(owner.vmid, want.agent, key, value), needs_place_lock=True
    )


def _reassign_steps(
    node: ProxmoxSpec,
    want: MachineWant,
    machine: LxcContainer | None,
    source: LxcContainer,
    mount: Mount,
    seen: ProxmoxSeen,
    ids: Iterator[int],
) -> list[Step]:
    """The volume goes from the container that owns it to a pet."""
    if mount.owner != source.vmid:
        raise CannotPlan(
            f"{source.name} has {mount.volume}, which it does not own",
            "name it by its volume, without a machine",
            code="adopt.not-owned",
        )
    _check_adoptable(source, Mark(Role.CATTLE, want.agent))
    if source.running and source is not machine:
        raise CannotPlan(
            f"{source.name} runs", "stop it: a volume is moved only while nothing has it mounted", code="adopt.running"
        )
    if "parent" in source.config:
        raise CannotPlan(
            f"{source.name} has snapshots, which keep its volumes", "delete its snapshots first", code="adopt.snapshots"
        )
    if source.flag("protection"):
        raise CannotPlan(
            f"{source.name} is protected, which keeps its volumes as they are",
            "set its protection to 0",
            code="adopt.protected",
        )
    named = want.spec.state.pet.vmid
    begun = [c for c in seen.with_role(Role.PET) if pets.holds_adopted_state(want, c)]
    pet = begun[0] if begun and named is None else seen.containers.get(named or 0)
    if named is not None and named in seen.taken and not (pet and pet.has(Role.PET)):
        raise pets.number_taken(named, seen)
    if pet is not None:
        pets.check_stopped(pet)
    number = pet.vmid if pet else named or next(ids)
    create = [] if pet else [pets.empty_pet_step(want, number, base=node.base.volid, storage=node.storage)]
    key = mount.key if mount.path else source.free_key
    value = mount.mounted_at(pets.path_in_pet(want.agent))
    action = Reassign(source.vmid, key, value, number, pet.free_key if pet else MOUNT_KEY, want.agent)
    title = f"give {mount.volume} of container {source.vmid} to pet {number}"
    return [*create, Step("state.reassign", title, "it would go with its container", action, needs_place_lock=True)]


def _check_writers(volume: str, known: Sequence[LxcContainer | None], seen: ProxmoxSeen) -> None:
    for other in seen.users_of(volume):
        if other not in known and (other.running or other.flag("onboot")):
            raise CannotPlan(
                f"{other.name} also mounts {volume}",
                "two machines must not write to one state: stop it, and set its onboot to 0",
                code="adopt.second-writer",
            )


def _machine_steps(want: MachineWant, machine: LxcContainer, volume: str | Ref, moved: str | None) -> Iterator[Step]:
    """The state in the machine, the mark in its notes, and its host key on record; ``moved`` is the key it was at."""
    mounted = next((m for m in machine.mounts if m.path and m.volume == volume), None)
    if mounted is None:
        machines.check_unprotected(machine, "it is to get the state")
        key = moved or (machine.free_key if machine.mount(MOUNT_KEY) else MOUNT_KEY)
        title = f"attach the state to container {machine.vmid}"
        action = Attach(machine.vmid, key, volume, want.state_path)
        yield Step("cattle.attach", title, "it is to be the state's machine", action)
    elif mounted.path != want.state_path:
        raise CannotPlan(
            f"{machine.name} has the state at {mounted.path}, the file says {want.state_path}",
            f"write state.path: {mounted.path}",
            code="adopt.other-path",
        )
    if machine.mark is None:
        title = f"mark container {machine.vmid} as the machine of {want.agent}"
        yield Step("cattle.adopt", title, "it is to be in the file's care", AdoptMachine(machine.vmid, want.agent))
    if moved and machine.running:
        yield machines.start_step(machine.vmid, "it was stopped for this")
    if machine.running and not (machine.mark and machine.mark.host_key):
        yield machines.reach_again_step(want, machine, "its host key is not on record")


def _notes(machine: LxcContainer | None, left_out: Sequence[str]) -> Iterator[str]:
    if machine is None:
        return
    yield f"from now on `down` and `cycle` destroy container {machine.vmid} with its root disk; the state outlives it"
    if left_out:
        yield f"the file cannot say this of it, and a machine made anew will not have it: {'; '.join(left_out)}"
    if "parent" in machine.config:
        yield "it has snapshots, which `down` will ask you to delete first"
