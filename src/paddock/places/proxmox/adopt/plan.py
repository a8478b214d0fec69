"""Planning `adopt`: use an existing container as the machine, and an existing volume as the state."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId
from paddock.file.models.quantities import Size
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.contract import Description, MachineWant
from paddock.places.proxmox import actions
from paddock.places.proxmox.actions import MOUNT_KEY, STATE_VOLUME, CannotPlan
from paddock.places.proxmox.adopt.description import describe as describe_containers
from paddock.places.proxmox.machine import plan as machines
from paddock.places.proxmox.node import notes, pools
from paddock.places.proxmox.node.notes import Mark, Role
from paddock.places.proxmox.node.observation import LxcContainer, Mount, ProxmoxSeen
from paddock.places.proxmox.pet import plan as pets
from paddock.places.proxmox.root import work as root_work
from paddock.plan.actions import Ref
from paddock.plan.step import AdoptTarget, MachinePlan, Step

_KEY: Final = re.compile(r"(mp|unused)\d+")


@frozen
class _Volume:
    """A volume to adopt as the state, and the container whose configuration names it, if any."""

    mount: Mount
    at: LxcContainer | None


def describe(node: ProxmoxSpec, agent: AgentId, target: AdoptTarget, seen: ProxmoxSeen) -> Description:
    """Describe the container and the volume to adopt with the keys of the file."""
    machine = seen.containers.get(target.machine) if target.machine is not None else None
    try:
        volume = _settled(agent, seen) or _find(target, machine, seen)
    except CannotPlan:
        volume = None  # the plan refuses too, and gives the reason
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
    """Return the size of a volume from any configuration that has it: not all of them do."""
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
    """Plan the adoption. Afterwards `up` finds the machine as the file describes it."""
    if target == AdoptTarget():
        raise CannotPlan(
            "nothing to adopt was named",
            f"name a container or a volume, for example `paddock adopt {want.agent} 105`",
            code="adopt.no-target",
        )
    pools.check_listed(seen)
    machine = _machine(node, want, target, seen)
    volume = _find(target, machine, seen)
    settled = _settled(want.id, seen)
    if settled and volume and volume.at and volume.mount.volume != settled.mount.volume:
        raise CannotPlan(
            f"{want.agent} already has {settled.mount.volume} as its state; {volume.mount.volume} is another volume",
            code="adopt.second-state",
        )
    if settled is None and volume is None and target.state is not None:
        raise CannotPlan(
            f"there is no volume {target.state}",
            "`pct config NUMBER` on the node lists a container's volumes",
            code="adopt.no-volume",
        )
    if machine:
        root_work.check_host_paths(want, seen)
        _check_volumes(want, machine, settled or volume)
    steps, name = _state_steps(node, want, machine, settled, volume, seen, ids)
    if machine:
        moves = [step.action for step in steps if isinstance(step.action, actions.Reassign)]
        moved = next((move.key for move in moves if move.source == machine.vmid), None)
        if moved and machine.running:
            reason = "a volume is moved only while no container has it mounted"
            steps.insert(-1, machines.stop_step(machine, reason, actions.StopToAdopt))
        steps += _machine_steps(want, machine, name, moved)
    return MachinePlan(steps, notes=list(_notes(machine, left_out)))


def _machine(node: ProxmoxSpec, want: MachineWant, target: AdoptTarget, seen: ProxmoxSeen) -> LxcContainer | None:
    """Return the container to adopt as the agent's machine; refuse if it cannot be adopted."""
    if target.machine is None:
        return None
    machine = seen.containers.get(target.machine)
    if machine is None:
        pools.check_visible(node.pools, target.machine, seen)
        where = "is on another node, or is a virtual machine" if target.machine in seen.taken else "does not exist"
        raise CannotPlan(
            f"container {target.machine} {where}",
            "for a container on another node of the cluster, set machine.node",
            code="adopt.no-container",
        )
    _check_adoptable(machine, Mark(Role.CATTLE, want.id))
    pools.check_adoptable(node.pools, machine, None, None)
    others = [c.name for c in seen.cattle_of(want.id) if c is not machine]
    if others:
        raise CannotPlan(
            f"{', '.join(others)} is already the machine of {want.agent}",
            "run `paddock down` first",
            code="adopt.second-machine",
        )
    return machine


def _check_adoptable(container: LxcContainer, wanted: Mark) -> None:
    """Refuse a container that cannot get the wanted mark."""
    mark = container.noted_mark  # also one that does not count: it says whose the container is
    if container.newer_mark:
        raise CannotPlan(
            f"a newer Paddock wrote the mark of {container.name}", pets.NEWER_HINT, code="adopt.newer-mark"
        )
    if not Mark.readable(container.notes):
        raise CannotPlan(
            f"the mark in the notes of {container.name} cannot be read",
            "if the container is not of Paddock, remove the lines that begin with `paddock:` from its notes",
            code="adopt.unreadable-mark",
        )
    if mark and (mark.role, mark.agent) != (wanted.role, wanted.agent):
        whose = f"the machine of {mark.agent.in_words}" if mark.agent else f"a {mark.role} of Paddock"
        raise CannotPlan(f"{container.name} is {whose}", "release the container there first", code="adopt.of-another")
    if container.is_template:
        raise CannotPlan(
            f"{container.name} is a template",
            "clone a machine from it first, or let Paddock build its own template",
            code="adopt.template",
        )
    if container.lock:
        raise CannotPlan(
            f"{container.name} is locked ({container.lock})",
            "wait until the task that holds the lock has ended",
            code="adopt.locked",
        )
    if not container.flag("unprivileged"):
        raise CannotPlan(
            f"{container.name} is privileged; in Paddock's unprivileged machines its files would have other owners",
            "restore a backup of it as an unprivileged container first",
            code="adopt.privileged",
        )


def _find(target: AdoptTarget, machine: LxcContainer | None, seen: ProxmoxSeen) -> _Volume | None:
    """Return the volume to adopt: the named one, or the machine's only volume of another container."""
    if target.state is None:
        volumes = [m for m in machine.mounts if m.path and m.owner is not None] if machine else []
        foreign = [m for m in volumes if machine and m.owner != machine.vmid]
        if len(foreign) > 1 and machine:
            there = ", ".join(f"{m.key} ({m.volume} at {m.path})" for m in foreign)
            raise CannotPlan(
                f"{machine.name} has several volumes: {there}",
                "name the state volume, for example --state mp0",
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


def _settled(agent: AgentId, seen: ProxmoxSeen) -> _Volume | None:
    """Return the state volume that a pet already has for the agent."""
    pets_of = [(c, m) for c in seen.with_role(Role.PET) if (m := c.mount_at(pets.path_in_pet(agent)))]
    if len(pets_of) > 1:
        numbers = ", ".join(str(c.vmid) for c, _ in pets_of)
        raise CannotPlan(
            f"several pets have a volume of {agent.name}: {numbers}",
            "remove the mark from the notes of the others",
            code="adopt.several-pets",
        )
    return _Volume(pets_of[0][1], pets_of[0][0]) if pets_of else None


def _check_volumes(want: MachineWant, machine: LxcContainer, state: _Volume | None) -> None:
    """Refuse a machine with volumes that would be destroyed with it, or that no pet owns."""
    for mount in machine.mounts:
        if mount.key == "rootfs" or mount.owner is None or (state and mount.volume == state.mount.volume):
            continue
        if mount.owner != machine.vmid:
            raise CannotPlan(
                f"{machine.name} also has {mount.volume} ({mount.key}) of container {mount.owner}",
                f"if it is the state, add `--state {mount.key}`; a machine of Paddock has no other volumes",
                code="adopt.second-volume",
            )
        at = f" at {mount.path}" if mount.path else ""
        raise CannotPlan(
            f"{machine.name} owns {mount.volume} ({mount.key}{at}), and `down` would destroy both",
            f"if it is the state: `paddock adopt {want.agent} {machine.vmid} --state {mount.key}` gives it to a pet;"
            " otherwise move it to another container",
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
    """Return the steps to a pet that owns the state, and the volume's name."""
    named = want.spec.state.pet.vmid
    if settled or volume is None:
        pet = pets.Pet(settled.at, settled.mount) if settled and settled.at else pets.find_pet(want, seen)
        if pet:
            pets.check_pet(want, pet, seen)
        else:
            pets.check_no_lost_pet(want, None, seen)
        number = pet.vmid if pet else named or next(ids)
        return pets.pet_steps(want, pet, number, node)
    mount, owner = volume.mount, seen.containers.get(volume.mount.owner or 0)
    pools.check_owner_visible(node.pools, mount.owner, seen)
    _check_writers(mount.volume, [machine, owner, volume.at], seen)
    if volume.at is not machine:
        _check_owner(want, mount)
    keeps = owner is not None and owner is not machine
    if keeps and owner and (volume.at is machine or owner.has(Role.PET) or owner.vmid == named or volume.at is None):
        pools.check_adoptable(node.pools, None, owner, None)
        return [_pet_step(want, owner, mount.volume)], mount.volume
    if volume.at is None:
        raise CannotPlan(
            f"no container owns {mount.volume}, and no configuration names it", code="adopt.volume-without-owner"
        )
    pools.check_adoptable(node.pools, machine, None, volume.at)
    return _reassign_steps(node, want, machine, volume.at, mount, seen, ids), STATE_VOLUME


def _check_owner(want: MachineWant, mount: Mount) -> None:
    """Refuse a volume that is the state of another agent."""
    agent = pets.agent_of(mount)
    if agent not in (None, want.id, *want.formers):
        raise CannotPlan(
            f"{mount.volume} is the state of {agent.in_words if agent else None}",
            "a volume is the state of one agent: name another one with --state",
            code="adopt.state-of-another-agent",
        )


def _pet_step(want: MachineWant, owner: LxcContainer, volume: str) -> Step:
    """Return the step that makes the owner of the volume its pet."""
    _check_adoptable(owner, Mark(Role.PET))
    pets.check_stopped(owner)
    mount = next((m for m in owner.mounts if m.volume == volume), None)
    if mount:
        _check_owner(want, mount)
    path = pets.path_in_pet(want.id)
    key = mount.key if mount and mount.path else owner.free_key
    value = _adopted(want, mount or Mount(key, volume, None, None), path)
    title = f"make container {owner.vmid} the pet of {want.agent}, with {volume}"
    return Step(
        "pet.adopt",
        title,
        "the container owns the state",
        actions.AdoptPet(owner.vmid, want.id, key, value),
        needs_place_lock=True,
    )


def _adopted(want: MachineWant, mount: Mount, path: str) -> str:
    """Return the value that mounts the volume in a pet. The file may say whether backups of the pet include it."""
    state = want.spec.state
    return mount.adopted_at(path, backup=state.backup, decided="backup" in state.model_fields_set)


def _reassign_steps(
    node: ProxmoxSpec,
    want: MachineWant,
    machine: LxcContainer | None,
    source: LxcContainer,
    mount: Mount,
    seen: ProxmoxSeen,
    ids: Iterator[int],
) -> list[Step]:
    """Return the steps that move the volume from its owner to a pet."""
    if mount.owner != source.vmid:
        raise CannotPlan(
            f"{source.name} uses {mount.volume} but does not own it",
            "adopt the volume by its name, without a container",
            code="adopt.not-owned",
        )
    _check_adoptable(source, Mark(Role.CATTLE, want.id))
    if source.running and source is not machine:
        raise CannotPlan(
            f"{source.name} is running",
            "stop it: a volume is moved only while no container has it mounted",
            code="adopt.running",
        )
    if "parent" in source.config:
        raise CannotPlan(
            f"{source.name} has snapshots, so its volumes cannot be moved",
            "delete its snapshots first",
            code="adopt.snapshots",
        )
    if source.flag("protection"):
        raise CannotPlan(
            f"{source.name} is protected, so its volumes cannot be moved",
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
    create = [] if pet else [pets.empty_pet_step(want, number, node)]
    key = mount.key if mount.path else source.free_key
    value = _adopted(want, mount, pets.path_in_pet(want.id))
    action = actions.Reassign(source.vmid, key, value, number, pet.free_key if pet else MOUNT_KEY, want.id)
    title = f"move {mount.volume} from container {source.vmid} to pet {number}"
    return [
        *create,
        Step(
            "state.reassign", title, "the volume would be destroyed with its container", action, needs_place_lock=True
        ),
    ]


def _check_writers(volume: str, known: Sequence[LxcContainer | None], seen: ProxmoxSeen) -> None:
    for other in seen.users_of(volume):
        if other not in known and (other.running or other.flag("onboot")):
            raise CannotPlan(
                f"{other.name} also mounts {volume}",
                "two machines must not write to one state: stop that container, and set its onboot to 0",
                code="adopt.second-writer",
            )


def _machine_steps(want: MachineWant, machine: LxcContainer, volume: str | Ref, moved: str | None) -> Iterator[Step]:
    """Yield the steps that attach the state, mark the machine and record its host key.

    ``moved`` is the key that the volume had in the machine before it was moved to a pet.
    """
    mounted = next((m for m in machine.mounts if m.path and m.volume == volume), None)
    if mounted is None:
        machines.check_unprotected(machine, "the plan attaches the state to it")
        key = moved or (machine.free_key if machine.mount(MOUNT_KEY) else MOUNT_KEY)
        title = f"attach the state to container {machine.vmid}"
        action = actions.Attach(machine.vmid, key, volume, want.state_path)
        yield Step("cattle.attach", title, "the machine needs the state", action)
    elif mounted.path != want.state_path:
        raise CannotPlan(
            f"{machine.name} has the state at {mounted.path}, the file says {want.state_path}",
            f"write state.path: {mounted.path}",
            code="adopt.other-path",
        )
    if machine.mark is None:
        title = f"mark container {machine.vmid} as the machine of {want.agent}"
        yield Step("cattle.adopt", title, "the container is adopted", actions.AdoptMachine(machine.vmid, want.id))
    stopped = not machine.running and notes.has_restart_note(machine.notes)  # by a run that was interrupted
    starts = stopped or (moved is not None and machine.running)
    if starts:
        yield machines.start_step(machine.vmid, "the machine was stopped for the move")
    if starts or (machine.running and not (machine.mark and machine.mark.host_key)):
        yield machines.reach_again_step(want, machine, "its host key is not recorded yet")


def _notes(machine: LxcContainer | None, left_out: Sequence[str]) -> Iterator[str]:
    if machine is None:
        return
    yield f"from now on `down` and `cycle` destroy container {machine.vmid} with its root disk; the state is kept"
    if left_out:
        yield f"the file cannot express this, and a recreated machine will not have it: {'; '.join(left_out)}"
    if "parent" in machine.config:
        yield f"container {machine.vmid} has snapshots, which must be deleted before `down`"
