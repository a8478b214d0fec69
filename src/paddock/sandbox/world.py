"""The cluster in the box: nodes, storages, accounts, containers and tasks, on top of a runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from .access import Access
from .config import CtConfig
from .errors import OperationError
from .guests import Guests
from .mountpoint import MountPoint, MountType, mount_points
from .runtime import GuestSpec, Mount, Runtime, Volume, VolumeRef
from .storage import Storage, StorageType, VolumeName, parse_volume_id, snapshot_name
from .tasks import Task, Tasks


@dataclass(frozen=True)
class Node:
    """A node's fixed facts."""

    name: str
    cpus: int = 2
    memory: int = 16 << 30
    bridges: tuple[str, ...] = ("vmbr0",)
    address: str = "10.99.0.1"
    prefix: int = 24


@dataclass(frozen=True)
class Release:
    """What the version call says."""

    release: str = "9.2"
    version: str = "9.2.11"
    repoid: str = "14a22df3"


class Figures(Protocol):
    """What the cluster's list says of containers."""

    def of(self, vmid: int) -> dict[str, Any]:
        """One container, as it was last seen."""
        ...

    def gather(self) -> None:
        """Look at every container now."""
        ...


@dataclass
class World:
    """Everything the API answers from."""

    nodes: dict[str, Node]
    storages: dict[str, Storage]
    access: Access
    guests: Guests
    tasks: Tasks
    runtime: Runtime
    release: Release = field(default_factory=Release)
    fingerprint: str = ""
    statistics: Figures = field(init=False)
    # Storages on which nothing more can be allocated.
    full: set[str] = field(default_factory=set)
    # Called whenever users, tokens, pools or ACLs changed, so that they can be written down.
    access_changed: Callable[[], None] = lambda: None

    def storage(self, storage_id: str) -> Storage:
        """A storage by its id."""
        found = self.storages.get(storage_id)
        if found is None:
            raise OperationError(f"storage '{storage_id}' does not exist")
        return found

    def storages_of(self, node: str) -> Iterator[Storage]:
        """The storages a node has."""
        for storage in self.storages.values():
            if not storage.nodes or node in storage.nodes:
                yield storage

    def locate(self, volid: str, node: str) -> tuple[Storage, VolumeRef]:
        """The storage and place of a volume id, or the failure for one that cannot be parsed."""
        parts = parse_volume_id(volid)
        if parts is None:
            raise OperationError(f"unable to parse volume ID '{volid}'")
        storage = self.storage(parts[0])
        storage.parse(parts[1])
        return storage, VolumeRef(node, storage.id, parts[1])

    def parse_volume(self, volid: str) -> VolumeName:
        """What a volume id's name says."""
        parts = parse_volume_id(volid)
        if parts is None:
            raise OperationError(f"unable to parse volume ID '{volid}'")
        return self.storage(parts[0]).parse(parts[1])

    def volume(self, volid: str, node: str) -> Volume | None:
        """The volume behind an id, if it exists."""
        return self.runtime.volumes.get(self.locate(volid, node)[1])

    def snapshots_of(self, ref: VolumeRef) -> list[VolumeRef]:
        """The snapshots LVM-thin keeps of a volume."""
        start = snapshot_name(ref.name, "")
        return [
            volume.ref for volume in self.runtime.volumes.on(ref.node, ref.storage) if volume.ref.name.startswith(start)
        ]

    def spec(self, vmid: int, node: str, config: CtConfig) -> GuestSpec:
        """What the runtime needs to know of a container."""
        mounts = [self.mount(point, node) for point in mount_points(config.options)]
        return GuestSpec(vmid, node, config, mounts)

    def mount(self, point: MountPoint, node: str) -> Mount:
        """A mount point with its source looked up."""
        if point.type is MountType.VOLUME:
            source = self.locate(point.volume, node)[1]
            return Mount(point.key, source, point.path, point.read_only)
        return Mount(point.key, self.runtime.host_path(node, point.volume), point.path, point.read_only)

    def start_task(self, node: str, type_: str, id_: str, user: str, work: Callable[[Task], None]) -> str:
        """Begin a task on a node and return its UPID."""
        return self.tasks.start(node, type_, id_, user, work)

    def require_content(self, storage: Storage) -> None:
        """Refuse a storage that may not hold containers' volumes."""
        if "rootdir" not in storage.content:
            raise OperationError(f"storage '{storage.id}' does not allow content type 'rootdir' (Container)")

    def capacity(self, storage: Storage) -> tuple[int, int]:
        """Total and used bytes of a storage, as pretended."""
        total = 340 << 30 if storage.type is StorageType.LVM_THIN else 252 << 30
        used = sum(volume.size // 10 for node in self.nodes for volume in self.runtime.volumes.on(node, storage.id))
        return total, total if storage.id in self.full else min(used, total)

    def require_space(self, storage: Storage, name: str) -> None:
        """Refuse to allocate on a storage that is full."""
        if storage.id not in self.full:
            return
        if storage.type is StorageType.LVM_THIN:
            pool = f"{storage.vgname}/{storage.thinpool}"
            raise OperationError(
                f"lvcreate '{storage.vgname}/{name}' error:   Cannot create new thin volume,"
                f" free space in thin pool {pool} reached threshold."
            )
        raise OperationError(f"unable to create image: No space left on device - '{storage.device(name)}'")
