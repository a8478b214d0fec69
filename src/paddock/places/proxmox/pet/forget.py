"""The pet's part of `forget`: the steps that delete an agent's volumes, and forgets that were interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paddock.file.agent_id import AgentId
from paddock.places.contract import MachineWant
from paddock.places.proxmox.actions import CannotPlan, DeleteVolume, DestroyPet
from paddock.places.proxmox.node.notes import Role
from paddock.places.proxmox.node.observation import LxcContainer, Mount, ProxmoxSeen
from paddock.places.proxmox.pet import plan as pets
from paddock.places.proxmox.pet.cache import cache_in
from paddock.places.proxmox.pet.plan import Pet
from paddock.plan.step import Risk, Step


def check_no_unfinished_forget(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse while a `forget` of the agent is unfinished: its state must not come back."""
    for agent in (want.id, *want.formers):
        left = seen.forgetting(agent)
        if left is None:
            continue
        raise CannotPlan(
            f"{left.name} has an unfinished `forget` of {want.agent}",
            _finish_hint(agent, want.id),
            code="pet.unfinished-forget",
        )


def _finish_hint(agent: AgentId, now: AgentId) -> str:
    if agent.project in ("", now.project):
        return "run `paddock forget` again first"
    return f"run `paddock forget` again first, with a file of project {agent.project}"


def forget_steps(want: MachineWant, pet: Pet | None, seen: ProxmoxSeen) -> Iterator[Step]:
    """Yield the steps that delete the state; refuse while another container names one of its volumes."""
    left = seen.forgetting(want.id)
    if left is not None and (pet is None or pet.vmid != left.vmid):
        yield from _forget_in(want, left, None, seen)
    if pet is not None and pet.state is not None:
        pets.check_named(want, pet.container, pet.state)
        yield from _forget_in(want, pet.container, pet.state, seen)


def _forget_in(want: MachineWant, pet: LxcContainer, state: Mount | None, seen: ProxmoxSeen) -> Iterator[Step]:
    """Yield the steps that delete the agent's volumes from a pet, or the pet if it has no other volumes."""
    forgets = pet.mark.unfinished_forget if pet.mark else None
    cut_off = forgets[1] if forgets and forgets[0] == want.id else None
    cache = cache_in(want.id, pet)
    named = (state.volume if state else None, cache.volume if cache else None, cut_off)
    volumes = tuple(dict.fromkeys(volume for volume in named if volume))
    _check_may_forget(want, pet, volumes, seen)
    reason = "an earlier `forget` was interrupted" if cut_off else "a person asked to forget the agent"
    if all(mount.key == "rootfs" or mount.volume in volumes for mount in pet.mounts):
        title = f"destroy pet {pet.vmid} with {' and '.join(volumes)} and all that {want.agent} has learned"
        yield Step("pet.destroy", title, reason, DestroyPet(pet.vmid, want.id, volumes), Risk.RECREATES)
        return
    if cut_off:
        title = f"finish deleting {cut_off} of pet {pet.vmid}"
        yield _delete(want, pet.vmid, cut_off, title, reason)
    if cache and cache.volume != cut_off:
        yield _delete(want, pet.vmid, cache.volume, f"delete the cache {cache.volume} of pet {pet.vmid}", reason)
    if state and state.volume != cut_off:
        title = f"delete {state.volume} of pet {pet.vmid} and all that {want.agent} has learned"
        yield _delete(want, pet.vmid, state.volume, title, reason)


def _check_may_forget(want: MachineWant, pet: LxcContainer, volumes: Sequence[str], seen: ProxmoxSeen) -> None:
    """Refuse while a volume is in use, or the pet is running, has snapshots or an unfinished `forget`."""
    for volume in volumes:
        users = [c for c in seen.users_of(volume) if c.vmid != pet.vmid]
        if users:
            names = ", ".join(user.name for user in users)
            hint = _user_hint(want, next((user for user in users if not user.has(Role.CATTLE)), users[0]))
            raise CannotPlan(f"{names} still has {volume} in its configuration", hint, code="forget.volume-in-use")
    if pet.running:
        raise CannotPlan(f"{pet.name} is running", "stop it first", code="forget.pet-running")
    if "parent" in pet.config:
        # A volume of a snapshot is kept when it is removed from the configuration, and is shown nowhere.
        raise CannotPlan(
            f"{pet.name} has snapshots, which also hold the state",
            "delete its snapshots first",
            code="forget.snapshots",
        )
    forgets = pet.mark.unfinished_forget if pet.mark else None
    if forgets and forgets[0] != want.id:
        # The mark can name one unfinished delete: a second one would replace it.
        raise CannotPlan(
            f"{pet.name} has an unfinished `forget` of {forgets[0].in_words}",
            f"run `paddock forget {forgets[0].name}`",
            code="forget.another-unfinished",
        )


def _user_hint(want: MachineWant, user: LxcContainer) -> str:
    """Return the hint for a container that uses a volume that the plan would delete."""
    whose = user.mark.agent if user.mark else None
    if whose == want.id:
        return "run `paddock down` first"
    if whose:
        return f"that container is the machine of {whose.in_words}: run `paddock down` with its file first"
    return f"nothing is deleted while that container has the volume; {pets.machine_mark_hint(want, user)}"


def _delete(want: MachineWant, vmid: int, volume: str, title: str, reason: str) -> Step:
    return Step("state.delete", title, reason, DeleteVolume(vmid, want.id, volume), Risk.RECREATES)
