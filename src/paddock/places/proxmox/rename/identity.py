"""The containers of an agent have its id. Those with a former id get the present one; all others are foreign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Self

from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId
from paddock.places.contract import MachineWant
from paddock.places.proxmox.actions import CannotPlan, RenameMachine, RenamePet
from paddock.places.proxmox.node.notes import Role
from paddock.places.proxmox.node.observation import LxcContainer, Mount, ProxmoxSeen
from paddock.places.proxmox.pet import cache as caches
from paddock.places.proxmox.pet import plan as pets
from paddock.plan.step import Step


@frozen
class Holding:
    """The containers of an id: pets with volumes of the agent, and containers marked as its machine."""

    agent: AgentId
    pets: Sequence[LxcContainer]
    machines: Sequence[LxcContainer]

    @classmethod
    def of(cls, agent: AgentId, seen: ProxmoxSeen) -> Self:
        owners = {c.vmid: c for path in _PATHS for c in seen.owners_of(path(agent))}
        return cls(agent, list(owners.values()), seen.cattle_of(agent))

    @property
    def containers(self) -> list[LxcContainer]:
        return [*self.machines, *self.pets]

    @property
    def numbers(self) -> str:
        """The numbers of its containers, in words."""
        numbers = [str(container.vmid) for container in self.containers]
        return f"{'containers' if len(numbers) > 1 else 'container'} {' and '.join(numbers)}"

    @property
    def in_words(self) -> str:
        return f"{self.agent.in_words} ({self.numbers})"


@frozen
class Former:
    """A pet and a machine with a former id of an agent. Its steps give them the present id."""

    agent: AgentId  # the former id
    pet: LxcContainer | None
    machine: LxcContainer | None

    def steps(self, agent: AgentId) -> Iterator[Step]:
        """Yield the steps that give the id to the pet and then to the machine; each is possible without the other."""
        reason = f"the agent {self.agent.so_far(agent)}"
        if self.pet:
            title = f"{self._move_of_state(agent)}: mount path on pet {self.pet.vmid}"
            action = RenamePet(self.pet.vmid, self.agent, agent, self._moved(agent, self.pet))
            yield Step("pet.rename", title, reason, action, needs_place_lock=True)
        if self.machine:
            title = f"mark machine {self.machine.vmid} as the machine of {agent.in_words}"
            yield Step("cattle.rename", title, reason, RenameMachine(self.machine.vmid, self.agent, agent))

    def _move_of_state(self, agent: AgentId) -> str:
        if self.agent.name != agent.name:
            return f"give the state of {self.agent.name} to {agent.name}"
        return f"move the state of {agent.name} to project {agent.project}"

    def after(self, agent: AgentId, seen: ProxmoxSeen) -> ProxmoxSeen:
        """Return the observation as it will be after the steps."""
        containers = dict(seen.containers)
        if self.pet:
            sizes = {mount.key: f",size={mount.size}" if mount.size else "" for mount in self.pet.mounts}
            moved = {key: f"{value}{sizes[key]}" for key, value in self._moved(agent, self.pet).items()}
            containers[self.pet.vmid] = self._with(self.pet, agent, **moved)
        if self.machine:
            containers[self.machine.vmid] = self._with(self.machine, agent)
        return replace(seen, containers=containers)

    def _moved(self, agent: AgentId, pet: LxcContainer) -> dict[str, str]:
        """Return the mount points of the agent's volumes with the paths of its id."""
        paths = {path_in_pet(self.agent): path_in_pet(agent) for path_in_pet in _PATHS}
        return {mount.key: mount.mounted_at(paths[mount.path or ""]) for mount in _volumes(self.agent, pet)}

    def _with(self, container: LxcContainer, agent: AgentId, **keys: str) -> LxcContainer:
        mark = container.mark
        notes = mark.renamed(self.agent, agent).written_into(container.notes) if mark else container.notes
        return replace(container, config={**container.config, **keys, "description": notes})


_PATHS = (pets.path_in_pet, caches.path_in_pet)


def _volumes(agent: AgentId, pet: LxcContainer) -> Iterator[Mount]:
    """Yield the state and the cache of an agent among a pet's own volumes."""
    yield from (mount for path in _PATHS if (mount := pet.mount_at(path(agent))))


def find_former(want: MachineWant, seen: ProxmoxSeen) -> Former | None:
    """Return the pet and the machine with a former id; refuse when it is not clear that they are the agent's."""
    found = [held for each in want.formers if (held := Holding.of(each, seen)).containers]
    if not found:
        return None
    if len(found) > 1:
        raise CannotPlan(
            f"{want.agent} may be one of several agents: {', '.join(each.in_words for each in found)}",
            f"`paddock up --new` makes {want.id.in_words} another agent",
            code="agent.several-formers",
        )
    former, own = found[0], Holding.of(want.id, seen)
    if len(former.pets) > 1 or len(former.machines) > 1:
        raise CannotPlan(
            f"several containers are the pet or the machine of {former.in_words}",
            "remove the mark from the notes of those that are not",
            code="agent.former-several-containers",
        )
    if own.containers and not _is_other_part(former, own):
        raise CannotPlan(
            f"{want.agent} is here twice: {own.in_words} and {former.in_words}",
            "`paddock up --new` uses the first and leaves the second as it is",
            code="agent.former-too",
        )
    return Former(former.agent, next(iter(former.pets), None), next(iter(former.machines), None))


def _is_other_part(former: Holding, own: Holding) -> bool:
    """Whether a run was interrupted between the pet and the machine: one has the former id, one has the agent's.

    The machine proves it: it mounts the state. A mark alone can be forged.
    """
    if (former.pets and own.pets) or (former.machines and own.machines):
        return False
    pet_of, machines = (former, own.machines) if former.pets else (own, former.machines)
    states = {mount.volume for pet in pet_of.pets for mount in _volumes(pet_of.agent, pet)}
    return all(any(mount.path and mount.volume in states for mount in each.mounts) for each in machines)


def as_renamed(want: MachineWant, seen: ProxmoxSeen) -> tuple[ProxmoxSeen, Former | None]:
    """Return the observation with the agent's id in place of a former one, and the containers with the former one."""
    try:
        former = find_former(want, seen)
    except CannotPlan:
        return seen, None  # the plan of `up` gives the reason
    return (former.after(want.id, seen), former) if former else (seen, None)


def check_renamed(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse to remove or delete an agent that has a former id, completely or in part."""
    own = Holding.of(want.id, seen)
    for former in (Holding.of(each, seen) for each in want.formers):
        if former.containers and (not own.containers or _is_other_part(former, own)):
            raise CannotPlan(
                f"{want.agent} {former.agent.so_far(want.id)} ({former.numbers})",
                f"run `paddock up` first: it moves the agent to project {want.id.project}",
                code="agent.not-renamed",
            )


def check_no_namesake(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse a new agent while the place has one of its name in another project, which may be the same agent."""
    if want.beside_others or Holding.of(want.id, seen).containers:
        return
    volumes = [mount for pet in seen.with_role(Role.PET) for mount in pet.mounts if mount.owner == pet.vmid]
    marks = [container.mark for container in seen.with_role(Role.CATTLE)]
    known = {*(pets.agent_of(mount) for mount in volumes), *(mark.agent for mark in marks if mark)}
    others = sorted(each for each in known if each and each.name == want.agent and each != want.id)
    if others:
        other = Holding.of(others[0], seen)
        project = other.agent.project
        raise CannotPlan(
            f"{other.agent.in_words} is here already ({other.numbers})",
            f"write `project: {project}` if this file describes that agent\n"
            f"`paddock rename --from {project}` moves that agent to project {want.id.project}\n"
            f"`paddock up --new` creates another agent of the same name",
            code="agent.of-another-project",
        )


def check_not_renamed_in_the_file_alone(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse a new agent whose state has the usual path of another agent of the project.

    `rename` writes that path into the file before it changes anything here, and may have been interrupted.
    """
    if Holding.of(want.id, seen).containers:
        return
    before = AgentId(want.id.project, PurePosixPath(want.state_path).name)
    if before.name == want.agent or pets.path_of_state(before.name) != want.state_path:
        return
    if (other := Holding.of(before, seen)).containers:
        raise CannotPlan(
            f"the file puts the state of {want.agent} at {want.state_path}, the path of {before.name}, which is here"
            f" ({other.numbers})",
            f"`paddock rename {before.name} {want.agent}` if it is the same agent; otherwise write another state.path",
            code="agent.renamed-in-file",
        )


def as_forgotten(want: MachineWant, seen: ProxmoxSeen) -> MachineWant:
    """Return the agent with the former id under which its `forget` began, so that it can be finished."""
    began = [each for each in want.formers if seen.forgetting(each)]
    return replace(want, id=began[0], formers=()) if began and not Holding.of(want.id, seen).containers else want
