"""Performing `forget`. Each delete first checks who uses the volume; a second run continues an interrupted one."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from paddock.base.errors import PaddockError, Refused
from paddock.file.agent_id import AgentId
from paddock.places.proxmox.access.visibility import users_of
from paddock.places.proxmox.actions import DeleteVolume, DestroyPet
from paddock.places.proxmox.node.containers import Containers
from paddock.places.proxmox.node.notes import Mark, Role, without_claim
from paddock.places.proxmox.node.observation import LxcContainer, Mount
from paddock.places.proxmox.pet import cache
from paddock.places.proxmox.pet.plan import agent_of


class Forgetter(Containers):
    """Performs the actions of `forget`."""

    def perform(self, action: DeleteVolume | DestroyPet) -> None:
        """Perform one action."""
        match action:
            case DeleteVolume(vmid, agent, volume):
                self._delete_volume(vmid, agent, volume, last=False)
            case DestroyPet():
                self._destroy_pet(action)
            case _:
                assert_never(action)

    def _destroy_pet(self, action: DestroyPet) -> None:
        pet, _ = self._pet(action.vmid, action.agent)
        if any(mount.volume not in action.volumes for mount in pet.mounts if mount.key != "rootfs"):
            raise Refused(f"{pet.name} has other volumes besides {' and '.join(action.volumes)}")
        # The state is deleted last: its mount path names the agent.
        for volume in reversed(action.volumes):
            if any(mount.volume == volume for mount in self.read(action.vmid).mounts):
                self._delete_volume(action.vmid, action.agent, volume, last=True)
        pet, _ = self._pet(action.vmid, action.agent)
        more = [mount.volume for mount in pet.mounts if mount.key != "rootfs"]
        if more:
            raise Refused(f"{pet.name} has {', '.join(more)} by now, and is kept")
        try:
            self._delete(pet, protection=0)
        except PaddockError:
            self._protect_again(action.vmid)
            raise

    def _protect_again(self, vmid: int) -> None:
        """Protect a pet again that could not be deleted."""
        try:
            self._protect(vmid)
        except PaddockError as error:
            self._reporter(f"container {vmid} may be unprotected: {error.message}")

    def _delete_volume(self, vmid: int, agent: AgentId, volume: str, *, last: bool) -> None:
        """Delete a volume: remove it from the configuration, then delete the unused entry that this leaves.

        The unused entry does not name the agent, so the mark does, for a later run that has to continue. With
        ``last`` the mark is kept, because the pet itself is deleted next.
        """
        pet, mark = self._pet(vmid, agent)
        after = replace(mark, forgetting=f"{agent}/{volume}")
        self._put(pet, {"protection": 0, "description": self._claimed_notes(after.written_into(pet.notes))})
        try:
            for prefix in ("mp", "unused"):
                pet, _ = self._pet(vmid, agent)
                own = [mount for mount in pet.mounts if (mount.volume, mount.owner) == (volume, vmid)]
                _check_agent(pet, own, agent)
                named = [mount.key for mount in own if mount.key.startswith(prefix)]
                if named:
                    self._check_unused(vmid, volume, agent)
                    self._put(pet, {"delete": ",".join(named)})
            pet = self.read(vmid)
            if any(mount.volume == volume for mount in pet.mounts):
                raise PaddockError(
                    f"{pet.name} still has {volume} after it was deleted", hint="run `paddock forget` again"
                )
            if not last:
                adopted = ",".join(map(str, sorted(mark.adopted_agents - {agent}))) or None
                after = replace(mark, adopted=adopted, forgetting=None)
        except Refused:
            pet = self.read(vmid)
            untouched = any(mount.volume == volume and mount.path for mount in pet.mounts)
            if untouched and mark.unfinished_forget is None:
                after = mark
            raise
        finally:
            pet = self.read(vmid)
            self._put(pet, {"protection": 1, "description": without_claim(after.written_into(pet.notes))})

    def _pet(self, vmid: int, agent: AgentId) -> tuple[LxcContainer, Mark]:
        """Return the pet as it is now; refuse unless a volume of the agent may be deleted from it."""
        pet = self.read(vmid)
        mark = pet.mark
        if mark is None or mark.role is not Role.PET:
            raise Refused(f"{pet.name} is not a pet of Paddock")
        if "parent" in pet.config:
            raise Refused(f"{pet.name} has snapshots, which also hold the state", hint="delete its snapshots first")
        if mark.unfinished_forget and mark.unfinished_forget[0] != agent:
            other = mark.unfinished_forget[0]
            hint = f"run `paddock forget {other.name}`"
            raise Refused(f"{pet.name} has an unfinished `forget` of {other.in_words}", hint=hint)
        return pet, mark

    def _check_unused(self, pet: int, volume: str, agent: AgentId) -> None:
        """Refuse while another container of the cluster has the volume, or is a machine that is about to get it."""
        users = [user.name for user in users_of(self._client, volume, pet, agent)]
        if users:
            raise Refused(
                f"{', '.join(users)} uses {volume}, which is kept",
                hint="run `paddock down` for the agent whose machine it is, and `paddock forget` again",
            )


def _check_agent(pet: LxcContainer, own: list[Mount], agent: AgentId) -> None:
    for mount in own:
        owner = agent_of(mount) or cache.agent_of(mount)
        if owner not in (None, agent):
            raise Refused(f"{mount.volume} of {pet.name} is a volume of {owner.in_words if owner else None} by now")
