"""The cache's part of a plan: a rebuildable volume that the pet owns and that outlives the machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paddock.file.agent_id import AgentId
from paddock.file.models.quantities import Size
from paddock.places.contract import MachineWant
from paddock.places.proxmox.actions import CACHE_VOLUME, MOUNT_KEY, AddCache, AttachCache, CannotPlan, GrowVolume
from paddock.places.proxmox.node.observation import LxcContainer, Mount, free_keys
from paddock.plan.actions import Ref
from paddock.plan.step import Step

_CACHES: Final = "/var/lib/paddock-cache"


def path_in_pet(agent: AgentId) -> str:
    """Return the mount path of an agent's cache in its pet, which never runs: the path only names the agent."""
    return f"{_CACHES}/{agent}"


def agent_of(mount: Mount) -> AgentId | None:
    """Return the agent whose cache a volume is, from its mount path in the pet."""
    top, _, agent = (mount.path or "").rpartition("/")
    return AgentId.parse(agent) if top == _CACHES else None


def cache_in(agent: AgentId, pet: LxcContainer | None) -> Mount | None:
    """Return the agent's cache among a pet's volumes."""
    return pet.mount_at(path_in_pet(agent)) if pet else None


def check(want: MachineWant, pet: LxcContainer | None) -> None:
    """Refuse a cache size below the current one."""
    there = cache_in(want.id, pet)
    if want.cache and there and there.size is not None and want.cache.size < there.size:
        raise CannotPlan(
            f"the volume for {want.cache.path} has {there.size}, but the file says {want.cache.size}",
            f"volumes cannot shrink: write {there.size}",
            code="cache.shrink",
        )


def missing_size(want: MachineWant, pet: LxcContainer | None) -> int:
    """Return the bytes that the cache still needs on the storage."""
    there = cache_in(want.id, pet)
    return max(want.cache.size - (there.size or want.cache.size if there else 0), 0) if want.cache else 0


def pet_steps(
    want: MachineWant, pet: LxcContainer | None, vmid: int, storage: str, *, state_is_new: bool
) -> tuple[list[Step], str | Ref | None]:
    """Return the steps to a pet with the cache, and the volume's name; nothing when no cache is wanted."""
    if want.cache is None:
        return [], None
    there = cache_in(want.id, pet)
    if there:
        return [], there.volume
    # A new state volume takes the first free key, so the cache takes the second.
    taken = {mount.key for mount in pet.mounts} if pet else set()
    free = free_keys(taken)
    key = [next(free), next(free)][1 if state_is_new else 0]
    value = f"{storage}:{want.cache.size.gib},mp={path_in_pet(want.id)},backup=0"
    title = f"create a cache volume of {want.cache.size} for {want.cache.path} on pet {vmid}"
    return [
        Step("pet.cache", title, "the pet has none yet", AddCache(vmid, key, value), needs_place_lock=True)
    ], CACHE_VOLUME


def grow_step(want: MachineWant, pet: LxcContainer | None) -> Step | None:
    """Return the step that grows the cache to the size in the file, if it is smaller."""
    there = cache_in(want.id, pet)
    if pet is None or want.cache is None or there is None or there.size is None or there.size >= want.cache.size:
        return None
    title = f"grow the cache volume for {want.cache.path} from {there.size} to {want.cache.size}"
    return Step("pet.grow", title, "the file says so", GrowVolume(pet.vmid, there.key, str(Size(want.cache.size))))


def attach_steps(want: MachineWant, cattle: LxcContainer | None, vmid: int, volume: str | Ref | None) -> Iterator[Step]:
    """Yield the step that mounts the cache. The machine must be stopped: a running engine uses the path."""
    if want.cache is None or volume is None:
        return
    there = next((m for m in cattle.mounts if m.path == want.cache.path), None) if cattle else None
    if there and there.volume == volume:
        return
    if there:
        raise CannotPlan(
            f"the machine of {want.agent} already has {there.volume} at {want.cache.path} ({there.key})",
            f"check its contents, because it may hold an agent's state; to free the path: `pct set"
            f" {cattle.vmid if cattle else vmid} -{there.key} {there.volume},mp=/ANOTHER/PATH`",
            code="cache.path-taken",
        )
    taken = {MOUNT_KEY} | ({mount.key for mount in cattle.mounts} if cattle else set())
    key = next(free_keys(taken))
    title = f"mount {want.cache.path} in machine {vmid}"
    yield Step(
        "cattle.cache",
        title,
        "the pet has a cache volume for this path",
        AttachCache(vmid, key, volume, want.cache.path),
    )


def difference_notes(want: MachineWant, pet: LxcContainer | None) -> Iterator[str]:
    """Yield a note about a cache volume that the file no longer asks for."""
    there = cache_in(want.id, pet)
    if there and pet and want.cache is None:
        yield f"{there.volume} of pet {pet.vmid}, the former cache, is kept; only `paddock forget` deletes it"
