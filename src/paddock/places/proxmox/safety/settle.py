"""Creating a pet or a machine while other runs may create one for the same agent: at most one of them is kept.

Two runs do not see each other's tasks, and a new container shows its mark only when its task has ended. So each run
creates its container first, marked as unfinished (``new``) and under a claim. Then it looks for others:

- none: it settles its own container, with one PUT that removes ``new``. Only then may a container mount the state.
- one that is settled, interrupted, or has a lower number: it removes its own, which is empty, and says who won.
- only others with higher numbers and running makers: it waits until these have removed theirs.

Never two: a run settles X only if it looked, after X was visible, and saw no other. If X and Y were both settled, Y
became visible after the maker of X looked, and X after the maker of Y looked. But each maker looked after its own was
visible, so X would be older than Y, and Y older than X. Clocks, claims and numbers have no part in this.

Never none: the settled container stays. Without one, the lowest number of a running maker waits or settles. If that run
dies, its container is left with ``new``, and the next run settles or replaces it. To do so it writes its own claim with
a digest first; a late maker then finds another claim or another digest, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from paddock import __version__
from paddock.base import clock
from paddock.base.errors import PaddockError, Refused, WorldChanged
from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId
from paddock.places.proxmox.access.visibility import users_of
from paddock.places.proxmox.node.containers import Containers
from paddock.places.proxmox.node.notes import Claim, Mark, Role, without_claim
from paddock.places.proxmox.node.observation import LxcContainer, Mount, ProxmoxSeen
from paddock.places.proxmox.pet.plan import path_in_pet, pets_for

_CREATING: Final = timedelta(minutes=15)  # longer than the client waits for the task that creates a container
_PAUSE: Final = 0.5


@frozen
class _Entry:
    """A new container of this run, and how to find others like it."""

    vmid: int
    what: str
    agent: AgentId
    others: Callable[[ProxmoxSeen], Sequence[LxcContainer]]


class Contest(Containers):
    """Decides which of several new pets or machines of one agent is kept."""

    def entry_notes(self, notes: str) -> str:
        """Return the notes for a container that this run creates: with ``new`` in its mark, and a claim."""
        mark = Mark.from_notes(notes)
        if mark is None:
            raise PaddockError("the notes of a new container have no mark that Paddock can read")
        new = replace(mark, by=__version__, new=self._holder.name)
        return self._claim(_CREATING).written_into(new.written_into(notes))

    def settle_pet(self, vmid: int, agent: AgentId, params: Mapping[str, str | int]) -> None:
        """Settle a new pet of this run; if another run has won, remove it and raise."""
        self._win(_Entry(vmid, "pet", agent, lambda seen: pets_for(agent, seen)))
        pet = self._mine(vmid)
        self._put(pet, {**params, "description": settled_notes(pet)})

    def settle_machine(self, vmid: int, agent: AgentId, pet: int | None, params: Mapping[str, str | int]) -> None:
        """Settle a new machine of this run with its state; if another run has won, remove it and raise.

        The claim stays until the machine was reached: other runs could not prove its ssh host key.
        """
        entry = _Entry(vmid, "machine", agent, lambda seen: seen.machines_of(agent))
        if pet is not None:
            try:
                # Before the look: a run that changes the state claims the pet first, and looks for machines then.
                self.read(pet)
            except Refused:
                self._remove_entry(entry)
                raise
        self._win(entry)
        machine = self._mine(vmid)
        self._put(machine, {**params, "description": self._claimed_notes(settled_notes(machine))})

    def settle_interrupted_pet(self, vmid: int) -> None:
        """Settle a pet that an interrupted run created."""
        pet = self.read(vmid)
        self._put(pet, {"description": settled_notes(pet), "protection": 1, "tags": pet.tagged})

    def _win(self, entry: _Entry) -> None:
        """Wait until there is no other container of this kind; remove this one and raise if another run has won."""
        told = ""
        while True:
            self._mine(entry.vmid)  # before the look, because who can read the container here can see it elsewhere
            seen = self._look()
            others = [other for other in entry.others(seen) if other.vmid != entry.vmid]
            waiting = [other for other in others if _gives_way(other, entry.vmid, seen)]
            if not others:
                return
            if len(waiting) < len(others):
                self._remove_entry(entry)
                raise _lost(entry, next(other for other in others if other not in waiting), seen)
            line = f"{_maker(waiting[0])} also created {entry.what} {waiting[0].vmid}; waiting until it is removed"
            if line != told:
                self._reporter(line)
                told = line
            clock.sleep(_PAUSE)

    def _mine(self, vmid: int) -> LxcContainer:
        """Return a new container of this run, unless another run has taken it over."""
        container = self.read(vmid)
        claim = Claim.from_notes(container.notes)
        owners = {container.mark.new if container.mark else None, claim.holder if claim else None}
        if owners != {self._holder.name}:
            raise WorldChanged(f"another run has taken {container.name} over")
        return container

    def _remove_entry(self, entry: _Entry) -> None:
        container = self._mine(entry.vmid)
        if entry.what == "pet":
            self.remove_pet(entry.vmid, entry.agent)
        else:
            self.remove_machine(container)

    def remove_machine(self, machine: LxcContainer) -> None:
        """Remove a machine that was never settled: it has only its root disk."""
        more = [mount.key for mount in machine.mounts if mount.key != "rootfs"]
        if more:
            raise Refused(f"{machine.name} was not finished, but has volumes: {', '.join(more)}")
        self._delete(machine)

    def remove_pet(self, vmid: int, agent: AgentId) -> None:
        """Remove a pet that was never settled, after proving that its volume is empty.

        The state of a pet is given to a machine only after the pet is settled. A pet with ``new`` in its mark that is
        stopped, has no volumes but those of its creation, and whose volume no container names, was never used.
        """
        pet = self.read(vmid)
        self._check_unused(pet, agent)
        own = [mount.volume for mount in pet.mounts if mount.key != "rootfs"]
        try:
            self._delete(pet, lambda: self._check_no_users(pet, own), protection=0)
        except Refused:
            self._protect(vmid)
            raise

    def _check_unused(self, pet: LxcContainer, agent: AgentId) -> None:
        status = self._client.get(f"{self._path}/{pet.vmid}/status/current")["status"]
        if pet.mark is None or pet.mark.role is not Role.PET or pet.mark.new is None:
            raise Refused(f"{pet.name} is not an unfinished pet; it is kept")
        if status != "stopped" or "parent" in pet.config:
            raise Refused(f"{pet.name} was used: it is {status} or has snapshots; it is kept")
        strange = [mount.key for mount in pet.mounts if not _of_creation(mount, pet.vmid, agent)]
        if strange:
            raise Refused(f"{pet.name} has volumes that it was not created with: {', '.join(strange)}; it is kept")

    def _check_no_users(self, pet: LxcContainer, volumes: Sequence[str]) -> None:
        users = [user.name for volume in volumes for user in users_of(self._client, volume, pet.vmid)]
        if users:
            raise Refused(f"{', '.join(users)} uses a volume of {pet.name}, which is kept")


def settled_notes(container: LxcContainer) -> str:
    """Return the notes of a container that is the agent's own from now on."""
    mark = container.mark
    if mark is None:
        raise Refused(f"the mark of {container.name} is gone from its notes")
    return without_claim(mark.settled.written_into(container.notes))


def _of_creation(mount: Mount, vmid: int, agent: AgentId) -> bool:
    """Whether a pet of the agent is created with such a volume."""
    own = mount.owner == vmid
    return own and (mount.key == "rootfs" or (mount.key == "mp0" and mount.path == path_in_pet(agent)))


def _gives_way(other: LxcContainer, mine: int, seen: ProxmoxSeen) -> bool:
    """Whether the maker of another container is running and removes it as soon as it sees this run's."""
    return other.unsettled and other.vmid > mine and seen.claim_of_another(other) is not None


def _maker(container: LxcContainer) -> str:
    mark = container.mark
    return (mark.new or mark.maker if mark else None) or "another run"


def _lost(entry: _Entry, winner: LxcContainer, seen: ProxmoxSeen) -> PaddockError:
    if winner.unsettled and seen.claim_of_another(winner) is None:
        return WorldChanged(f"{_maker(winner)} left {winner.name} unfinished")
    return Refused(
        f"{_maker(winner)} created {entry.what} {winner.vmid} for {entry.agent.name} at the same time",
        hint=f"{entry.what} {entry.vmid} of this run was empty and is removed; run `paddock up` again",
    )
