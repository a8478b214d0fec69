"""Performing the change of an agent's id. After every request, the next `up` continues from there."""

from __future__ import annotations

from typing import assert_never

from paddock.base.errors import PaddockError, WorldChanged
from paddock.places.contract import Got
from paddock.places.proxmox.actions import RenameMachine, RenamePet
from paddock.places.proxmox.node.containers import Containers
from paddock.places.proxmox.node.notes import Mark, Role
from paddock.places.proxmox.node.observation import LxcContainer, Mount


class Renamer(Containers):
    """Gives the pet and the machine of an agent another id of the agent."""

    def perform(self, action: RenamePet | RenameMachine) -> Got:
        """Perform one action and return the mark for later steps, which compare it."""
        match action:
            case RenamePet():
                self._rename_pet(action)
                return {}
            case RenameMachine():
                return self._rename_machine(action)
            case _:
                assert_never(action)

    def _rename_pet(self, action: RenamePet) -> None:
        pet, _ = self._to_rename(action, Role.PET)
        self._put(pet, {"protection": 0})
        try:
            pet, mark = self._to_rename(action, Role.PET)
            # One request: neither a volume nor a record in the mark is ever without the other.
            self._put(pet, {**action.volumes, "description": mark.written_into(pet.notes)})
        finally:
            self._put(self.read(action.vmid), {"protection": 1})
        pet = self.read(action.vmid)
        for key, value in action.volumes.items():
            if not _is_at(pet.mount(key), str(value)):
                raise PaddockError(f"{pet.name} does not have {str(value).partition(',')[0]} at its new path")

    def _rename_machine(self, action: RenameMachine) -> Got:
        machine, mark = self._to_rename(action, Role.CATTLE)
        self._put(machine, {"description": mark.written_into(machine.notes)})
        return self._expected.record_renamed(action.vmid, mark)

    def _to_rename(self, action: RenamePet | RenameMachine, role: Role) -> tuple[LxcContainer, Mark]:
        """Return the container as it is now, and its mark with the new id; raise unless it is as it was planned for."""
        container, mark = self._marked(action.vmid)
        self._check_claim(container)
        same = mark.role is role
        if isinstance(action, RenamePet):
            mounts = {mount.key: mount for mount in container.mounts}
            same = same and all(_differs_in_path(mounts.get(key), str(value)) for key, value in action.volumes.items())
        else:
            same = same and mark.agent == action.former
        if not same:
            raise WorldChanged(f"{container.name} is not as it was planned for", hint="run the same command again")
        return container, mark.renamed(action.former, action.agent)


def _differs_in_path(mount: Mount | None, value: str) -> bool:
    """Whether the value mounts the same volume with the same options at another path."""
    return (
        mount is not None
        and value == mount.mounted_at(Mount.from_config("", value).path or "")
        and not _is_at(mount, value)
    )


def _is_at(mount: Mount | None, value: str) -> bool:
    wanted = Mount.from_config("", value)
    return mount is not None and (mount.volume, mount.path) == (wanted.volume, wanted.path)
