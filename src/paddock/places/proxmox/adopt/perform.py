"""Performing `adopt`. After every request, running `adopt` again continues from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import assert_never

from paddock.base.errors import PaddockError, Refused
from paddock.file.agent_id import AgentId
from paddock.places.contract import Got
from paddock.places.proxmox.actions import STATE_VOLUME, AdoptMachine, AdoptPet, Reassign
from paddock.places.proxmox.node.containers import Containers, with_version
from paddock.places.proxmox.node.network import WITH_PLACE
from paddock.places.proxmox.node.notes import Mark, Role, has_restart_note, with_restart_note, without_restart_note
from paddock.places.proxmox.node.observation import LxcContainer, Mount
from paddock.places.proxmox.pet.plan import agent_of, path_in_pet, pets_for
from paddock.places.proxmox.safety.same_container import check_key_free


class Adopter(Containers):
    """Performs the actions of `adopt`. While it changes a pet or gives its volume to a machine, it claims the pet."""

    def perform(self, action: AdoptPet | Reassign | AdoptMachine) -> Got:
        """Perform one action and return the values that later steps refer to."""
        match action:
            case AdoptPet(vmid, agent, key, value):
                return self._adopt_pet(vmid, agent, key, value)
            case Reassign():
                return self._reassign(action)
            case AdoptMachine(vmid, agent):
                self._adopt_machine(vmid, agent)
                return {}
            case _:
                assert_never(action)

    def _adopt_pet(self, vmid: int, agent: AgentId, key: str, value: str) -> Got:
        self._unprotect(vmid, agent)
        try:
            self._set_volume(vmid, key, value)
        finally:
            self._protect(vmid)
        return self._adopted_volume(vmid, agent)

    def _reassign(self, action: Reassign) -> Got:
        self._set_volume(action.source, action.key, action.value)
        self._unprotect(action.pet, action.agent)
        source, pet = self.read(action.source), self.read(action.pet)
        if pet.flag("protection"):
            # Proxmox would remove the volume from its owner, and then refuse to add it to the pet.
            raise Refused(f"someone protected {pet.name} again; the volume was not moved")
        params: dict[str, str | int] = {
            "volume": action.key,
            "target-vmid": pet.vmid,
            "target-volume": action.target,
            "digest": str(source.config["digest"]),
            "target-digest": str(pet.config["digest"]),
        }
        self._task("POST", f"{self._path}/{source.vmid}/move_volume", params)
        # Not after a failure: a task whose response was lost may still add the volume.
        self._protect(pet.vmid)
        return self._adopted_volume(pet.vmid, action.agent)

    def _set_volume(self, vmid: int, key: str, value: str) -> None:
        """Set a key to a volume, unless another volume has the key by now."""
        container = self.read(vmid)
        check_key_free(container, key, value.partition(",")[0])
        self._put(container, {key: value})

    def _unprotect(self, vmid: int, agent: AgentId) -> None:
        """Claim a pet, remove its protection, and record in its mark that the agent's volume is adopted."""
        pet = self.read(vmid)
        mark = self._own_mark(pet, Mark(Role.PET, macs=WITH_PLACE)).settled
        adopted = ",".join(map(str, sorted({*mark.adopted_agents, agent})))
        notes = self._claimed_notes(with_version(replace(mark, adopted=adopted).written_into(pet.notes)))
        self._put(pet, {"protection": 0, "description": notes, "tags": pet.tagged})

    def _adopted_volume(self, vmid: int, agent: AgentId) -> Got:
        pet = self.read(vmid)
        mount = pet.mount_at(path_in_pet(agent))
        if mount is None:
            raise PaddockError(f"{pet.name} does not have the volume of {agent.name} after it was adopted")
        return {STATE_VOLUME.name: mount.volume}

    def attach(self, vmid: int, key: str, volume: str, path: str) -> None:
        """Mount the state in a container and mark it, so that other runs see the agent's machine."""
        owner = Mount.from_config(key, volume).owner
        pet = self.read(owner) if owner is not None else None
        agent = next((agent_of(mount) for mount in pet.mounts if mount.volume == volume), None) if pet else None
        if pet is None or agent is None:
            raise Refused(f"no pet has {volume} as the state of an agent")
        with self._only_machine(vmid, agent, pet.vmid):
            check_key_free(self.read(vmid), key, volume)
            self._mark_machine(vmid, agent, {key: f"{volume},mp={path}"})

    def _adopt_machine(self, vmid: int, agent: AgentId) -> None:
        if self.read(vmid).has(Role.CATTLE):
            return  # marked when it got the state
        pet = next(iter(pets_for(agent, self._look())), None)
        with self._only_machine(vmid, agent, pet.vmid if pet else None):
            self._mark_machine(vmid, agent, {})

    @contextmanager
    def _only_machine(self, vmid: int, agent: AgentId, pet: int | None) -> Iterator[None]:
        """Keep other runs from creating a machine of the agent; refuse if there is one besides this container.

        A run that creates a machine reads the pet's claim once its machine is visible, and looks for others after that.
        """
        with self._claimed(pet) if pet is not None else nullcontext():
            others = [each.name for each in self._look().machines_of(agent) if each.vmid != vmid]
            if others:
                names = ", ".join(others)
                raise Refused(f"{names} is a machine of {agent.name} by now", hint="run `paddock down` first")
            yield

    def _mark_machine(self, vmid: int, agent: AgentId, params: Mapping[str, str | int]) -> None:
        container = self.read(vmid)
        mark = self._own_mark(container, Mark(Role.CATTLE, agent))
        # Text above the mark counts as a person's.
        notes = with_version(mark.written_into(without_restart_note(container.notes)))
        notes = with_restart_note(notes) if has_restart_note(container.notes) else notes
        self._put(container, {**params, "description": notes, "tags": container.tagged})

    def _own_mark(self, container: LxcContainer, wanted: Mark) -> Mark:
        """Return the container's mark, or the wanted one if it has none; refuse another role or agent."""
        if container.newer_mark:
            raise Refused(f"a newer Paddock wrote the mark of {container.name}")
        if not Mark.readable(container.notes):
            raise Refused(f"the mark in the notes of {container.name} cannot be read")
        mark = container.mark or wanted
        if (mark.role, mark.agent) != (wanted.role, wanted.agent):
            raise Refused(f"{container.name} has another mark by now")
        return mark
