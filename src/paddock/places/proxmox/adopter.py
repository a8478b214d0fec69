"""Carrying out an adoption: each call leaves the node in a state from which `adopt` goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from paddock.errors import PaddockError, Refused
from paddock.places import Got
from paddock.places.proxmox.actions import STATE_VOLUME, AdoptMachine, AdoptPet, Reassign
from paddock.places.proxmox.containers import Containers, with_version
from paddock.places.proxmox.expected import check_key_free
from paddock.places.proxmox.mark import Mark, Role
from paddock.places.proxmox.pet import path_in_pet
from paddock.places.proxmox.seen import LxcContainer


class Adopter(Containers):
    """Performs the actions of `adopt`."""

    def perform(self, action: AdoptPet | Reassign | AdoptMachine) -> Got:
        """Carry out one action and return what later steps may refer to."""
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

    def _adopt_pet(self, vmid: int, agent: str, key: str, value: str) -> Got:
        self._open(vmid, agent)
        try:
            self._place(vmid, key, value)
        finally:
            self._put(self.read(vmid), {"protection": 1})
        return self._arrived(vmid, agent)

    def _reassign(self, action: Reassign) -> Got:
        self._place(action.source, action.key, action.value)
        self._open(action.pet, action.agent)
        source, pet = self.read(action.source), self.read(action.pet)
        if pet.flag("protection"):
            # Proxmox would take the volume out of the one and not let it into the other.
            raise Refused(f"someone put the protection of {pet.name} back; the volume was not moved")
        params: dict[str, str | int] = {
            "volume": action.key,
            "target-vmid": pet.vmid,
            "target-volume": action.target,
            "digest": str(source.config["digest"]),
            "target-digest": str(pet.config["digest"]),
        }
        self._task("POST", f"{self._path}/{source.vmid}/move_volume", params)
        # Not when it failed: a task whose answer was lost may still be about to put the volume in.
        self._put(self.read(pet.vmid), {"protection": 1})
        return self._arrived(pet.vmid, action.agent)

    def _place(self, vmid: int, key: str, value: str) -> None:
        """Write a volume at a key, unless another one has it by now."""
        container = self.read(vmid)
        check_key_free(container, key, value.partition(",")[0])
        self._put(container, {key: value})

    def _open(self, vmid: int, agent: str) -> None:
        """Lift a pet's protection; its mark tells from now on that the agent's volume has a past."""
        pet = self.read(vmid)
        mark = self._own_mark(pet, Mark(Role.PET))
        adopted = ",".join(sorted({*mark.adopted_agents, agent}))
        notes = with_version(replace(mark, adopted=adopted).written_into(pet.notes))
        self._put(pet, {"protection": 0, "description": notes, "tags": pet.tagged})

    def _arrived(self, vmid: int, agent: str) -> Got:
        pet = self.read(vmid)
        mount = pet.mount_at(path_in_pet(agent))
        if mount is None:
            raise PaddockError(f"{pet.name} does not have the volume of {agent} after it was given to it")
        return {STATE_VOLUME.name: mount.volume}

    def _adopt_machine(self, vmid: int, agent: str) -> None:
        container = self.read(vmid)
        mark = self._own_mark(container, Mark(Role.CATTLE, agent))
        notes = with_version(mark.written_into(container.notes))
        self._put(container, {"description": notes, "tags": container.tagged})

    def _own_mark(self, container: LxcContainer, wanted: Mark) -> Mark:
        """The mark it has, if it is of that kind, or the wanted one; refused where it is someone else's."""
        if not Mark.readable(container.notes):
            raise Refused(f"the notes of {container.name} have a mark that cannot be read")
        mark = container.mark or wanted
        if (mark.role, mark.agent) != (wanted.role, wanted.agent):
            raise Refused(f"{container.name} is marked as something else by now")
        return mark
