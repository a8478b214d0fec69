"""The simulated cluster: nodes, storages, accounts, containers and tasks, on top of a runtime."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pvebox.access.accounts import Access
from pvebox.api.errors import OperationError, UnreachableError
from pvebox.backups.joblock import JobLock
from pvebox.cluster.ha import HaStore
from pvebox.cluster.tasks import Tasks
from pvebox.guests.config import CtConfig
from pvebox.guests.configstore import ConfigStore
from pvebox.guests.mountpoint import MountPoint, MountType, mount_points
from pvebox.guests.storage import Storage, StorageType, VolumeName, snapshot_name, split_volume_id
from pvebox.runtime.contract import ContainerSpec, Mount, Runtime, Volume, VolumeRef
from pvebox.server.certificates import OWN, CertificateInfo


@dataclass(frozen=True)
class Node:
    """The fixed properties of a node."""

    name: str
    cpus: int = 2
    memory: int = 16 << 30
    bridges: tuple[str, ...] = ("vmbr0",)
    address: str = "10.99.0.1"
    prefix: int = 24


@dataclass(frozen=True)
class Release:
    """The answer of the version call."""

    release: str = "9.2"
    version: str = "9.2.11"
    repoid: str = "14a22df3"


@dataclass
class Membership:
    """The nodes that are offline or silent, and whether the others have quorum.

    Proxmox keeps all configs in a cluster filesystem. Without a majority of the nodes it is read-only. Some methods
    check that first; the others fail when they write a config or take a lock of the cluster.
    """

    offline: set[str] = field(default_factory=set)
    # Nodes whose pvestatd has reported nothing for five minutes. It may hang while the node's API works.
    silent: set[str] = field(default_factory=set)
    quorate: bool = True

    def status(self, node: str) -> str:
        """Return the status of a node. Corosync tells `offline`; `unknown` only means that no figures are fresh."""
        if node in self.offline:
            return "offline"
        return "unknown" if node in self.silent else "online"

    def require_quorum(self) -> None:
        """Raise the error of the methods that check for quorum first."""
        if not self.quorate:
            raise OperationError("cluster not ready - no quorum?")

    def require_reachable(self, node: str) -> None:
        """Raise the error of a request that cannot be forwarded, because its node is offline."""
        if node in self.offline:
            raise UnreachableError

    def require_writable(self, path: str) -> None:
        """Raise the error of a write to the cluster's filesystem, which is read-only without quorum."""
        if not self.quorate:
            raise OperationError(f"unable to open file '/etc/pve/{path}.tmp.{os.getpid()}' - Permission denied")

    def require_lock(self, name: str, timeout: float, say: Callable[[str], None] | None = None) -> None:
        """Raise the error of a lock of the cluster, after the time that Proxmox tries to take it."""
        if self.quorate:
            return
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if say is not None:
                say(f"trying to acquire cfs lock '{name}' ...")
            time.sleep(min(1.0, timeout))
        raise OperationError(f"cfs-lock '{name}' error: no quorum!")


class Figures(Protocol):
    """The containers' entries in the cluster's resource list."""

    def of(self, vmid: int) -> dict[str, Any]:
        """Return a container's entry from the last collection."""
        ...

    def gather(self) -> None:
        """Collect the figures of all containers now."""
        ...


@dataclass
class Cluster:
    """The data and the runtime behind the API."""

    nodes: dict[str, Node]
    storages: dict[str, Storage]
    access: Access
    configs: ConfigStore
    tasks: Tasks
    runtime: Runtime
    ha: HaStore
    release: Release = field(default_factory=Release)
    name: str = "sandbox"
    members: Membership = field(default_factory=Membership)
    # The certificates of the node that answers. A test may set others, for example one that expires soon.
    certificates: list[CertificateInfo] = field(default_factory=list)
    # Seconds by which the nodes' clock is ahead of this machine's. The Date header shows it.
    clock_offset: float = 0.0
    statistics: Figures = field(init=False)
    # Storages that reject allocations because they are simulated as full.
    full: set[str] = field(default_factory=set)
    # The locks of backup jobs, by node.
    backup_locks: defaultdict[str, JobLock] = field(default_factory=lambda: defaultdict(JobLock))
    # The scheduled backup jobs by their ids.
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    # The zones of the SDN vnets.
    vnets: dict[str, str] = field(default_factory=dict)
    # The name servers of the nodes, as in resolv.conf.
    dns: dict[str, dict[str, str]] = field(default_factory=dict)
    # The templates that Proxmox offers for download, as its list of appliances shows them.
    index: tuple[Mapping[str, Any], ...] = ()
    # Called after a change of users, tokens, roles, pools or ACLs, to save them.
    access_changed: Callable[[], None] = lambda: None
    # Called after a change of storages, backup jobs or node settings, to save them.
    settings_changed: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.configs.require_writable = self.members.require_writable
        self.ha.require_writable = self.members.require_writable
        self.runtime.sharing.is_shared = lambda storage: storage in self.storages and self.storages[storage].shared

    @property
    def local_node(self) -> str:
        """The node that answers requests. It forwards requests for the other nodes."""
        return next(iter(self.nodes))

    @property
    def config_version(self) -> int:
        """The version of the cluster's config. Creating the cluster and each joining node raise it."""
        return len(self.nodes)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 fingerprint of the server's certificate."""
        return next((each.fingerprint for each in self.certificates if each.filename == OWN), "")

    def now(self) -> float:
        """Return the time of the nodes' clock."""
        return time.time() + self.clock_offset

    def storage(self, storage_id: str) -> Storage:
        """Return a storage by its id, or raise Proxmox's error."""
        found = self.storages.get(storage_id)
        if found is None:
            raise OperationError(f"storage '{storage_id}' does not exist")
        return found

    def storages_of(self, node: str) -> Iterator[Storage]:
        """Iterate over the storages of a node."""
        for storage in self.storages.values():
            if not storage.nodes or node in storage.nodes:
                yield storage

    def require_available(self, storage: Storage, node: str) -> None:
        """Raise Proxmox's error if a storage is limited to other nodes."""
        if storage.nodes and node not in storage.nodes:
            raise OperationError(f"storage '{storage.id}' is not available on node '{node}'")

    def locate(self, volid: str, node: str) -> tuple[Storage, VolumeRef]:
        """Return storage and reference of a volume id. Raise Proxmox's error if the id is invalid."""
        store, name = split_volume_id(volid)
        storage = self.storage(store)
        storage.parse(name)
        return storage, self.place(storage, node, name)

    def existing(self, volid: str, node: str) -> tuple[Storage, VolumeRef, Volume]:
        """Return storage, reference and facts of a volume. Raise Proxmox's error if it does not exist."""
        storage, ref = self.locate(volid, node)
        volume = self.runtime.volumes.get(ref)
        if volume is None:
            raise OperationError(storage.missing(ref.name))
        return storage, ref, volume

    def place(self, storage: Storage, node: str, name: str) -> VolumeRef:
        """Return the reference of a volume as a node sees it."""
        return VolumeRef(storage.home(node), storage.id, name)

    def parse_volume(self, volid: str) -> VolumeName:
        """Parse the name in a volume id."""
        store, name = split_volume_id(volid)
        return self.storage(store).parse(name)

    def snapshots_of(self, ref: VolumeRef) -> list[VolumeRef]:
        """Return the snapshots of a volume on LVM-thin."""
        start = snapshot_name(ref.name, "")
        return [
            volume.ref for volume in self.runtime.volumes.on(ref.node, ref.storage) if volume.ref.name.startswith(start)
        ]

    def spec(self, vmid: int, node: str, config: CtConfig) -> ContainerSpec:
        """Return the data that the runtime needs of a container."""
        mounts = [self.mount(point, node) for point in mount_points(config.options)]
        return ContainerSpec(vmid, node, config, mounts)

    def mount(self, point: MountPoint, node: str) -> Mount:
        """Resolve the source of a mount point."""
        if point.type is MountType.VOLUME:
            source = self.locate(point.volume, node)[1]
            return Mount(point.key, source, point.path, point.read_only)
        return Mount(point.key, self.runtime.host_path(node, point.volume), point.path, point.read_only)

    def require_content(self, storage: Storage) -> None:
        """Raise unless the storage may hold containers' volumes."""
        if storage.disabled:
            raise OperationError(f"storage '{storage.id}' is disabled")
        if "rootdir" not in storage.content:
            raise OperationError(f"storage '{storage.id}' does not allow content type 'rootdir' (Container)")

    def capacity(self, storage: Storage) -> tuple[int, int]:
        """Return the simulated total and used bytes of a storage."""
        total = 340 << 30 if storage.type.is_lvm else 252 << 30
        homes = {storage.home(node) for node in self.nodes}
        used = sum(volume.size // 10 for home in homes for volume in self.runtime.volumes.on(home, storage.id))
        return total, total if storage.id in self.full else min(used, total)

    def require_space(self, storage: Storage, name: str) -> None:
        """Raise if the storage is full."""
        if storage.id not in self.full:
            return
        if storage.type is StorageType.LVM_THIN:
            pool = f"{storage.vgname}/{storage.thinpool}"
            raise OperationError(
                f"lvcreate '{storage.vgname}/{name}' error:   Cannot create new thin volume,"
                f" free space in thin pool {pool} reached threshold."
            )
        if storage.type is StorageType.LVM:
            raise OperationError("not enough free space (0 < 4194304)")
        raise OperationError(f"unable to create image: No space left on device - '{storage.device(name)}'")
