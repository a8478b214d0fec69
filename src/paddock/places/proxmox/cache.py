"""The cache's part of a plan: a volume of the pet with what can be made again, and is slow to."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.places import MachineWant
from paddock.places.proxmox.actions import CACHE_VOLUME, MOUNT_KEY, AddCache, AttachCache, GrowVolume
from paddock.places.proxmox.cannot import CannotPlan
from paddock.places.proxmox.seen import LxcContainer, Mount
from paddock.plan.actions import Ref
from paddock.plan.step import Step
from paddock.spec.sizes import Size


def path_in_pet(agent: str) -> str:
    """Where a pet would mount an agent's cache: it never does, but this says whose it is."""
    return f"/var/lib/paddock-cache/{agent}"


def agent_of(mount: Mount) -> str | None:
    """The agent whose cache it is, by the path a pet would mount it at."""
    top, _, agent = (mount.path or "").rpartition("/")
    return agent if top == path_in_pet("x").rpartition("/")[0] else None


def cache_in(agent: str, pet: LxcContainer | None) -> Mount | None:
    """The agent's cache among a pet's volumes."""
    return pet.mount_at(path_in_pet(agent)) if pet else None


def check(want: MachineWant, pet: LxcContainer | None) -> None:
    """Refuse a cache that would have to shrink."""
    there = cache_in(want.agent, pet)
    if want.cache and there and there.size is not None and want.cache.size < there.size:
        raise CannotPlan(
            f"the volume for {want.cache.path} has {there.size}, the file says {want.cache.size}",
            f"nothing shrinks: write {there.size}",
            code="cache.shrink",
        )


def missing_size(want: MachineWant, pet: LxcContainer | None) -> int:
    """The bytes it will take on the storage."""
    there = cache_in(want.agent, pet)
    return max(want.cache.size - (there.size or want.cache.size if there else 0), 0) if want.cache else 0


def pet_steps(
    want: MachineWant, pet: LxcContainer | None, vmid: int, storage: str, *, state_is_new: bool
) -> tuple[list[Step], str | Ref | None]:
    """Return the steps to a pet with the cache, and the volume's name; no steps and no name when none is wanted."""
    if want.cache is None:
        return [], None
    there = cache_in(want.agent, pet)
    if there:
        return [], there.volume
    # Proxmox gives a pet without the state the first key, and the state takes the first free one.
    taken = {mount.key for mount in pet.mounts} if pet else set()
    free = (key for key in (f"mp{number}" for number in range(256)) if key not in taken)
    key = [next(free), next(free)][1 if state_is_new else 0]
    value = f"{storage}:{want.cache.size.gib},mp={path_in_pet(want.agent)},backup=0"
    title = f"give pet {vmid} a volume of {want.cache.size} for {want.cache.path}"
    return [Step("pet.cache", title, "it has none", AddCache(vmid, key, value), needs_place_lock=True)], CACHE_VOLUME


def grow_step(want: MachineWant, pet: LxcContainer | None) -> Step | None:
    """The step that makes it as large as the file says."""
    there = cache_in(want.agent, pet)
    if pet is None or want.cache is None or there is None or there.size is None or there.size >= want.cache.size:
        return None
    title = f"grow the volume for {want.cache.path} from {there.size} to {want.cache.size}"
    return Step("pet.grow", title, "the file says so", GrowVolume(pet.vmid, there.key, str(Size(want.cache.size))))


def attach_steps(want: MachineWant, cattle: LxcContainer | None, vmid: int, volume: str | Ref | None) -> Iterator[Step]:
    """The step that gives it to a machine, which must not run: an engine would lose what it is at."""
    if want.cache is None or volume is None:
        return
    there = next((m for m in cattle.mounts if m.path == want.cache.path), None) if cattle else None
    if there and there.volume == volume:
        return
    if there:
        raise CannotPlan(
            f"the machine of {want.agent} has {there.volume} at {want.cache.path} ({there.key})",
            f"look at what is on it: it may hold a memory; `pct set {cattle.vmid if cattle else vmid} -{there.key}"
            f" {there.volume},mp=/ANOTHER/PATH` makes room for the volume of {want.agent}",
            code="cache.path-taken",
        )
    taken = {MOUNT_KEY} | ({mount.key for mount in cattle.mounts} if cattle else set())
    key = next(key for key in (f"mp{number}" for number in range(256)) if key not in taken)
    title = f"mount {want.cache.path} in machine {vmid}"
    yield Step("cattle.cache", title, "it has a volume of its own", AttachCache(vmid, key, volume, want.cache.path))


def difference_notes(want: MachineWant, pet: LxcContainer | None) -> Iterator[str]:
    """What is left of a cache that the file no longer asks for."""
    there = cache_in(want.agent, pet)
    if there and pet and want.cache is None:
        yield f"{there.volume} of pet {pet.vmid} was {want.agent}'s cache and stays; only `paddock forget` frees it"
