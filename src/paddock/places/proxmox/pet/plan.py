"""The pet's part of a plan: the container that owns the state volume, and the volume's size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.contract import MachineWant
from paddock.places.proxmox import actions
from paddock.places.proxmox.actions import MOUNT_KEY, STATE_VOLUME, CannotPlan, Params
from paddock.places.proxmox.node import numbers as occupant
from paddock.places.proxmox.node.network import WITH_PLACE
from paddock.places.proxmox.node.notes import AGAIN, Mark, Role
from paddock.places.proxmox.node.observation import LxcContainer, Mount, ProxmoxSeen
from paddock.plan.actions import Ref
from paddock.plan.step import Step

_STATES: Final = "/var/lib/paddock"
NEWER_HINT: Final = "use the version of Paddock that wrote the mark, or a later one"


def path_in_pet(agent: AgentId) -> str:
    """Return the mount path of an agent's state in its pet, which never runs: the path only names the agent."""
    return f"{_STATES}/{agent}"


def path_of_state(agent: str) -> str:
    """Return the usual path of a state on an agent's machine."""
    return f"{_STATES}/{agent}"


def agent_of(mount: Mount) -> AgentId | None:
    """Return the agent whose state a volume is, from its mount path in the pet."""
    top, _, agent = (mount.path or "").rpartition("/")
    return AgentId.parse(agent) if top == _STATES else None


def pets_for(agent: AgentId, seen: ProxmoxSeen) -> list[LxcContainer]:
    """Return the pets that have a volume of the agent, or whose mark says that one is being adopted."""
    adopted = [c for c in seen.with_role(Role.PET) if c.mark and c.mark.adopted and agent in c.mark.adopted_agents]
    return list({c.vmid: c for c in (*seen.owners_of(path_in_pet(agent)), *adopted)}.values())


def state_in(want: MachineWant, container: LxcContainer) -> Mount | None:
    """Return the agent's state among a container's own volumes: state.volume, or the one at the agent's path."""
    named = want.spec.state.volume
    if named is None:
        return container.mount_at(path_in_pet(want.id))
    return next((m for m in container.mounts if m.volume == named and m.owner == container.vmid), None)


def owners_of_state(want: MachineWant, seen: ProxmoxSeen) -> list[LxcContainer]:
    """Return the pets that have the agent's state among their own volumes."""
    named = want.spec.state.volume
    found = seen.owners_of(path_in_pet(want.id)) if named is None else seen.users_of(named)
    return [c for c in found if c.has(Role.PET) and state_in(want, c)]


@frozen
class Pet:
    """The container that owns an agent's state, as observed."""

    container: LxcContainer
    state: Mount | None  # None: the pet has no volume for this agent yet

    @property
    def vmid(self) -> int:
        return self.container.vmid


def find_pet(want: MachineWant, seen: ProxmoxSeen) -> Pet | None:
    """Return the agent's pet; refuse when it is not clear which container that is."""
    asked, volume = want.spec.state.pet.vmid, want.spec.state.volume
    owners = owners_of_state(want, seen)
    if not owners:
        check_not_on_another_node(want, seen)
    if not owners and (lost := lost_pet(want, seen)) is not None:
        raise lost_pet_refusal(want, lost)
    if volume is not None and not owners:
        raise CannotPlan(
            f"no pet has {volume}, which the file names as the state of {want.agent}",
            f"`paddock adopt {want.agent} --state {volume}` gives it to a pet",
            code="pet.without-named-volume",
        )
    if len(owners) > 1 and asked not in [c.vmid for c in owners]:
        numbers = ", ".join(str(c.vmid) for c in owners)
        raise CannotPlan(
            f"several pets have a volume of {want.agent}: {numbers}",
            "set state.pet to the number of the right one",
            code="pet.several",
        )
    if asked is None:
        return Pet(owners[0], state_in(want, owners[0])) if owners else None
    if owners and asked not in [c.vmid for c in owners]:
        raise CannotPlan(
            f"{owners[0].name} has the state of {want.agent}, but the file says state.pet: {asked}",
            f"write {owners[0].vmid}, or move the state first",
            code="pet.other-number",
        )
    named = seen.containers.get(asked)
    if named is not None and named.has(Role.PET):
        _check_project(want, named)
        return Pet(named, state_in(want, named))
    if asked in seen.taken:
        raise number_taken(asked, seen)
    return None


def check_not_on_another_node(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse while the agent's pet is on another node of the cluster, where a person has moved it."""
    for vmid, (node, container) in seen.on_other_nodes.items():
        state = _state_elsewhere(want, container)
        if state is not None or (container.has(Role.PET) and holds_adopted_state(want, container)):
            raise CannotPlan(
                f"container {vmid} on node {node} has the state of {want.agent}",
                _elsewhere_hint(want, vmid, node, state, seen),
                code="state.on-another-node",
            )
        if container.has(Role.PET) and vmid == want.spec.state.pet.vmid:
            raise CannotPlan(
                f"state.pet: {container.name} is a pet on node {node}",
                f"name that node in the file (machine.node: {node}), or choose another pet",
                code="pet.number-on-another-node",
            )


def _state_elsewhere(want: MachineWant, container: LxcContainer) -> Mount | None:
    """Return the agent's state among the volumes of a pet on another node."""
    if not container.has(Role.PET):
        return None
    found = (container.mount_at(path_in_pet(agent)) for agent in (want.id, *want.formers))
    return state_in(want, container) or next((mount for mount in found if mount), None)


def _elsewhere_hint(want: MachineWant, vmid: int, node: str, state: Mount | None, seen: ProxmoxSeen) -> str:
    machines = [each for agent in (want.id, *want.formers) for each in seen.cattle_of(agent)]
    if not machines:
        return f"name that node in the file (machine.node: {node}), or migrate the pet to this one"
    users = {mount.volume for machine in machines for mount in machine.mounts if mount.path}
    if state is not None and state.volume in users and state.storage in seen.local:
        # Proxmox copies a local volume, also while a machine writes to it, and cannot remove the original then.
        return (
            f"the machine here mounts another volume of the name {state.volume}, and both may hold what {want.agent}"
            " has learned: migrate nothing, and see docs/proxmox.md for how to find out which one is newer"
        )
    back = f"pct migrate {vmid} {seen.node}"
    return f"its machine is on this node: as root on {node}, migrate the pet back with `{back}`"


def check_reachable(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse to believe that the agent has no pet while one may be on a node that cannot be asked."""
    if not want.beside_others:
        unreachable_refusal(want, Role.PET, "has a pet", seen)


def unreachable_refusal(want: MachineWant, role: Role, what: str, seen: ProxmoxSeen) -> None:
    """Refuse while containers that may have a role for the agent are on nodes that cannot be asked."""
    found = seen.hidden.unreachable_as(role)
    if found:
        first = seen.hidden.unreachable[found[0]]
        numbers = ", ".join(map(str, found))
        raise CannotPlan(
            f"container {numbers} is {first.in_words}; it is not known whether {want.agent} {what}",
            f"{first.hint}; if {want.agent} was never there, `paddock up --new` makes it a new agent",
            code="cluster.unreachable-member",
        )


def _check_project(want: MachineWant, pet: LxcContainer) -> None:
    """Refuse a pet that has volumes of other projects only; before projects, a pet could belong to everyone."""
    projects = {owner.project for mount in pet.mounts if (owner := agent_of(mount))}
    if projects and projects.isdisjoint({want.id.project, ""}):
        raise CannotPlan(
            f"{pet.name} is a pet of project {' and '.join(sorted(projects))}",
            "set state.pet to another number, or leave it out",
            code="pet.of-another-project",
        )


def machine_mark_hint(want: MachineWant, container: LxcContainer) -> str:
    """Return the hint to write the lost mark of an agent's machine back into the container's notes."""
    if container.newer_mark:
        return NEWER_HINT
    mark = Mark(Role.CATTLE, want.id)
    return f"if it is the machine of {want.agent}, write this line into its notes{_instead(container)}: {mark}"


def lost_pet(want: MachineWant, seen: ProxmoxSeen) -> LxcContainer | None:
    """Return a container that looks like the agent's pet, but has no readable mark."""
    paths = [path_in_pet(each) for each in (want.id, *want.formers)]
    for container in seen.containers.values():
        if container.noted_mark and container.noted_mark.role is Role.PET:
            continue  # a pet, or one outside its pool
        named = container.config.get("hostname") == name_of_pet(want)
        owns = container.mark is None and not container.running and any(map(container.mount_at, paths))
        owns = owns and container.vmid != want.spec.machine.vmid  # an interrupted adoption set the path
        if named or owns:
            return container
    return None


def lost_pet_refusal(want: MachineWant, container: LxcContainer) -> CannotPlan:
    """Return the refusal to continue without a pet that lost its mark."""
    if container.newer_mark:
        return _newer_pet(want, container)
    return CannotPlan(
        f"{container.name} looks like the pet of {want.agent} but has no readable mark",
        pet_mark_hint(container),
        code="pet.lost-mark",
    )


def check_no_newer_pet(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse to create a state while a newer Paddock may have one for the agent, in a pet that cannot be read here."""
    for container in seen.containers.values():
        if container.newer_mark and container.newer_mark.get("role", Role.PET) == Role.PET:
            raise _newer_pet(want, container)


def _newer_pet(want: MachineWant, container: LxcContainer) -> CannotPlan:
    return CannotPlan(
        f"a newer Paddock wrote the mark of {container.name}, which may have the state of {want.agent}",
        NEWER_HINT,
        code="pet.newer-mark",
    )


def pet_mark_hint(container: LxcContainer) -> str:
    """Return the hint to write the lost mark of a pet back into its notes; it ends with the line to copy."""
    if container.newer_mark:
        return NEWER_HINT
    return f"if it is a pet, write this line into its notes{_instead(container)}: {Mark(Role.PET)}"


def _instead(container: LxcContainer) -> str:
    """Return the part of a hint that names the unreadable mark to replace: two marks count as none."""
    if "paddock: " not in container.notes:
        return ""
    return " in place of the line that begins with `paddock:`"


def taken_number_hint(vmid: int, seen: ProxmoxSeen) -> str:
    """Return a hint for a pet's number that is taken, perhaps by a pet that lost its mark."""
    there = seen.containers.get(vmid)
    if there is not None and there.mark is None and not there.running and not there.lock:
        volumes = [mount.volume for mount in there.mounts if mount.key != "rootfs" and not mount.is_bind]
        if there.newer_mark:
            return f"a newer Paddock wrote its mark: {NEWER_HINT}"
        if volumes or not Mark.readable(there.notes):
            return f"if it never was a pet, `paddock adopt` makes it one; {pet_mark_hint(there)}"
    return occupant.hint(vmid, seen)


def number_taken(vmid: int, seen: ProxmoxSeen) -> CannotPlan:
    """Return the refusal of a ``state.pet`` whose number another container or virtual machine has."""
    if vmid in seen.hidden.members:
        # It may be the pet: no hint may lead a person to destroy it.
        return CannotPlan(
            f"state.pet: the token lacks VM.Audit on container {vmid} in pool {seen.hidden.members[vmid]}",
            reading_hint(vmid),
            code="pet.number-hidden",
        )
    known = ", which is no pet" if vmid in seen.containers else ""
    reason = f"state.pet: {vmid} is taken by {occupant.in_words(vmid, seen)}{known}"
    return CannotPlan(reason, taken_number_hint(vmid, seen), code="pet.number-taken")


def reading_hint(vmid: int) -> str:
    """Return the hint about a member of a pool that the token may not read."""
    return f"`paddock doctor` prints the commands that grant VM.Audit; no ACL on /vms/{vmid} may take it away"


def check_pet(want: MachineWant, pet: Pet, seen: ProxmoxSeen) -> None:
    """Refuse a pet in a condition that endangers the state."""
    container = pet.container
    if pet.state:
        check_named(want, container, pet.state)
    elif holds_adopted_state(want, container):
        raise _adoption_unfinished(want, container)
    if (claim := seen.claim_of_another(container)) is not None:
        raise CannotPlan(claim.over(container.name), AGAIN, code="pet.claimed")
    check_stopped(container)
    if pet.state is None and container.unsettled:
        raise CannotPlan(
            f"{container.name} is unfinished: the run that created it was interrupted",
            "run `paddock up` for the agent that it was created for",
            code="pet.unfinished",
        )
    if pet.state is None:
        loose = [m.volume for m in container.mounts if m.key.startswith("unused")]
        if loose:
            raise CannotPlan(
                f"{container.name} has no volume for {want.agent}, but has unused volumes: {', '.join(loose)}",
                f"`paddock adopt {want.agent} --state {loose[0]}` makes it the state of {want.agent};"
                " if none of them is the state, move them to another container, because each may hold an agent's state",
                code="pet.unused-volumes",
            )
    elif pet.state.size is not None and want.spec.state.size < pet.state.size:
        raise CannotPlan(
            f"the state volume has {pet.state.size}, but the file says {want.spec.state.size}",
            f"volumes cannot shrink: write state.size: {pet.state.size}",
            code="state.shrink",
        )


def _adoption_unfinished(want: MachineWant, container: LxcContainer) -> CannotPlan:
    return CannotPlan(
        f"the adoption of the state of {want.agent} by {container.name} is unfinished",
        "run the same `paddock adopt` again",
        code="pet.unfinished-adoption",
    )


def check_stopped(container: LxcContainer) -> None:
    """Refuse a pet that could write to the state itself."""
    if container.running:
        raise CannotPlan(
            f"{container.name} is a pet and is running", "stop it: a pet only owns the volume", code="pet.running"
        )
    if container.flag("onboot"):
        raise CannotPlan(
            f"{container.name} is a pet and would start with the node", "set its onboot to 0", code="pet.starts-on-boot"
        )


def holds_adopted_state(want: MachineWant, container: LxcContainer) -> bool:
    """Whether the pet has, or is about to get, an adopted volume of the agent."""
    ids = {want.id, *want.formers}
    return container.mark is not None and not ids.isdisjoint(container.mark.adopted_agents)


def check_named(want: MachineWant, container: LxcContainer, state: Mount) -> None:
    """Refuse a state.volume that is another agent's, or unused, or not the volume that the agent has."""
    if (owner := agent_of(state)) not in (None, want.id):
        raise CannotPlan(
            f"{state.volume} is the state of {owner.in_words if owner else None}",
            "set state.volume to another volume, or leave it out",
            code="state.of-another-agent",
        )
    if state.path is None:
        raise CannotPlan(
            f"{container.name} has {state.volume} only as an unused volume ({state.key})",
            f"`paddock adopt {want.agent} --state {state.volume}` makes it the state",
            code="state.unused",
        )
    known = container.mount_at(path_in_pet(want.id))
    if known is not None and known.volume != state.volume:
        raise CannotPlan(
            f"{container.name} has {known.volume} as the state of {want.agent}, but the file says {state.volume}",
            f"write {known.volume}, or leave state.volume out",
            code="state.other-volume",
        )


def check_no_lost_pet(want: MachineWant, cattle: LxcContainer | None, seen: ProxmoxSeen) -> None:
    """Refuse to create a pet while the agent may have one already: the new pet would have no state."""
    for container in seen.containers.values():
        if container.has(Role.PET) and holds_adopted_state(want, container):
            raise _adoption_unfinished(want, container)
    if (lost := lost_pet(want, seen)) is not None:
        raise lost_pet_refusal(want, lost)
    name = name_of_pet(want)
    others = [each for each in seen.cluster.values() if each.is_container and each.node != seen.node]
    there = next((each.node for each in others if each.name == name), None)
    if there is not None and not want.beside_others:
        raise CannotPlan(
            f"{name} on node {there} looks like the pet of {want.agent}",
            "a new pet would have no state: name that node in the file, or migrate the pet to this one",
            code="pet.on-another-node",
        )
    if cattle is not None:
        raise CannotPlan(
            f"{cattle.name} is the machine of {want.agent}, but no pet has its state",
            "a new pet would have no state: find the container that owns the state volume first",
            code="pet.missing",
        )


def name_of_pet(want: MachineWant) -> str:
    """Return the host name of the agent's pet."""
    return want.spec.state.pet.name or f"{want.agent}-pet"


def pet_steps(want: MachineWant, pet: Pet | None, vmid: int, node: ProxmoxSpec) -> tuple[list[Step], str | Ref]:
    """Return the steps to a protected pet with the agent's volume, and the volume's name."""
    return list(_steps(want, pet, vmid, node)), pet.state.volume if pet and pet.state else STATE_VOLUME


def _steps(want: MachineWant, pet: Pet | None, vmid: int, node: ProxmoxSpec) -> Iterator[Step]:
    size = want.spec.state.size
    backup = int(want.spec.state.backup)
    value = f"{want.spec.state.storage or node.storage}:{size.gib},mp={path_in_pet(want.id)},backup={backup}"
    if pet is None:
        params = {**_params(want, node, Mark(Role.PET, macs=WITH_PLACE)), MOUNT_KEY: value}
        title = f"create pet {vmid} with a state volume of {size}"
        yield _create(want, title, "the agent has no state yet", vmid, params)
    elif pet.state is None:
        key = pet.container.free_key
        title = f"create a state volume of {size} on pet {pet.vmid}"
        yield Step(
            "pet.volume",
            title,
            f"the pet has none for {want.agent}",
            actions.AddVolume(pet.vmid, key, value),
            needs_place_lock=True,
        )
    elif pet.container.unsettled:
        title, reason = f"finish pet {pet.vmid}", "the run that created it was interrupted"
        yield Step("pet.settle", title, reason, actions.SettlePet(pet.vmid), needs_place_lock=True)
    elif not pet.container.flag("protection"):
        action = actions.Configure(pet.vmid, {"protection": 1})
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
        actions.IncludeVolume(vmid, state.key, backup),
    )


def empty_pet_step(want: MachineWant, vmid: int, node: ProxmoxSpec) -> Step:
    """Return the step that creates a pet for an existing volume."""
    params = _params(want, node, Mark(Role.PET, adopted=str(want.id), macs=WITH_PLACE))
    return _create(want, f"create pet {vmid}", "a pet must own the state", vmid, params)


def _create(want: MachineWant, title: str, reason: str, vmid: int, params: Params) -> Step:
    named = want.spec.state.pet.vmid or want.throwaway
    action = actions.CreatePet(vmid, params, None if named else want.agent)
    return Step("pet.create", title, reason, action, needs_place_lock=True)


def _params(want: MachineWant, node: ProxmoxSpec, mark: Mark) -> dict[str, str | int]:
    return {
        "ostemplate": node.base.volid,
        "hostname": name_of_pet(want),
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
        actions.GrowVolume(pet.vmid, pet.state.key, str(size)),
    )


def difference_notes(node: ProxmoxSpec, want: MachineWant, pet: Pet) -> Iterator[str]:
    """Yield notes about differences of the pet and the state from the file that are left as they are."""
    yield from _pet_notes(want, pet)
    if pet.state is None:
        return
    adopted = holds_adopted_state(want, pet.container)
    storage, there = want.spec.state.storage or (None if adopted else node.storage), pet.state.storage
    if storage is not None and storage != there:
        yield f"the state is on {there}, but the file says {storage}: left as it is"


def _pet_notes(want: MachineWant, pet: Pet) -> Iterator[str]:
    """Yield notes about keys of the pet that differ from the file: it never runs, and agents may share it."""
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
