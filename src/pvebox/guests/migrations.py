"""Migrate containers: copy their local volumes to another node and move their configs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from pvebox.api.errors import ApiError, OperationError
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.tasks import Task
from pvebox.guests.config import CtConfig, Options
from pvebox.guests.disks import every_volume, free, next_volume, owned_volumes
from pvebox.guests.lifecycle import start
from pvebox.guests.mountpoint import MountType, add_unused, mount_points, parse
from pvebox.guests.options import MOUNT_KEYS, UNUSED_KEYS
from pvebox.guests.storage import Storage
from pvebox.runtime.contract import VolumeRef

_SHUTDOWN_SECONDS: Final = 180


@dataclass(frozen=True)
class StorageMap:
    """The target storage for each storage of the source node, or one for all others."""

    entries: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None

    def of(self, storage: str) -> str:
        """Return the target of a storage."""
        return self.entries.get(storage, self.default or storage)


@dataclass(frozen=True)
class MigrateOrder:
    """The parameters of a migrate call, after its checks."""

    vmid: int
    source: str
    target: str
    storages: StorageMap = field(default_factory=StorageMap)
    online: bool = False
    restart: bool = False
    timeout: int = _SHUTDOWN_SECONDS


class Migration:
    """One migration. It ends in Proxmox's words: `migration aborted` or `migration problems`."""

    def __init__(self, cluster: Cluster, order: MigrateOrder, task: Task) -> None:
        self._cluster = cluster
        self._order = order
        self._task = task
        self._since = time.time()
        self._was_running = False
        self._moved = False
        # The volumes that were copied: their ids on the source, with their references there.
        self._copied: dict[str, VolumeRef] = {}
        self._failed_removals = False

    def run(self) -> None:
        """Migrate. The caller holds the lock of the container's config."""
        try:
            config = self._prepare()
        except ApiError as error:
            self._abort(error)
        try:
            self._say(f"starting migration of CT {self._order.vmid} to node '{self._order.target}' ({self._address})")
            self._copy_and_move(config)
        except ApiError as error:
            self._say(f"ERROR: {error.text}")
            self._say("aborting phase 1 - cleanup resources")
            for volid in self._copied:
                self._say(f"ERROR: found stale volume copy '{volid}' on node '{self._order.target}'")
            self._clean_up()
            self._abort(error)
        self._remove_source_volumes()
        self._clean_up()
        if self._failed_removals:
            self._say(f"ERROR: migration finished with problems (duration {self._duration()})")
            raise OperationError("migration problems")
        self._say(f"migration finished successfully (duration {self._duration()})")

    @property
    def _address(self) -> str:
        return self._cluster.nodes[self._order.target].address

    def _say(self, text: str) -> None:
        self._task.say(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")

    def _duration(self) -> str:
        return time.strftime("%H:%M:%S", time.gmtime(time.time() - self._since))

    def _abort(self, error: ApiError) -> NoReturn:
        self._say(f"ERROR: migration aborted (duration {self._duration()}): {error.text}")
        raise OperationError("migration aborted") from None

    def _prepare(self) -> CtConfig:
        """Check the container and the nodes, and stop a container that will be restarted on the target."""
        cluster, order = self._cluster, self._order
        config = cluster.configs.load(order.vmid, order.source)
        config.require_unlocked()
        self._was_running = cluster.runtime.containers.running(order.vmid)
        if self._was_running and order.online:
            raise OperationError("lxc live migration is currently not implemented")
        if self._was_running and not order.restart:
            raise OperationError("running container can only be migrated in restart mode")
        for point in mount_points(config.options):
            if point.type is not MountType.VOLUME:
                if point.attributes.get("shared") != "1":
                    raise OperationError(f"cannot migrate local {point.type} mount point '{point.key}'")
                continue
            storage = cluster.locate(point.volume, order.source)[0]
            target = storage if storage.shared else cluster.storage(order.storages.of(storage.id))
            cluster.require_available(storage, order.source)
            cluster.require_available(target, order.target)
            if "rootdir" not in target.content:
                raise OperationError(
                    f"{point.volume}: content type 'rootdir' is not available on storage '{target.id}'"
                )
        if order.target in cluster.members.offline:
            self._say(f"ssh: connect to host {self._address} port 22: No route to host")
            raise OperationError("Can't connect to destination address using public key")
        if self._was_running:
            self._say(f"shutdown CT {order.vmid}")
            if not cluster.runtime.containers.shutdown(order.vmid, order.timeout):
                raise OperationError("container did not stop")
            config = cluster.configs.load(order.vmid, order.source)
        return config

    def _copy_and_move(self, config: CtConfig) -> None:
        cluster, order = self._cluster, self._order
        config.options["lock"] = "migrate"
        cluster.configs.save(order.vmid, order.source, config)
        renamed: dict[str, str] = {}
        for volid in self._local_volumes(config):
            storage, ref, _ = cluster.existing(volid, order.source)
            copy = self._copy(storage, ref)
            self._copied[volid] = ref
            renamed[volid] = f"{copy.storage}:{copy.name}"
            self._say(f"volume '{volid}' is '{renamed[volid]}' on the target")
        for section in (config.options, *config.snapshots.values()):
            _rename_volumes(section, renamed)
        mounted = [point.volume for section in config.snapshots.values() for point in mount_points(section)]
        for volid in renamed.keys() - {*every_volume(config.options), *mounted}:
            add_unused(config.options, renamed[volid])
        cluster.configs.save(order.vmid, order.source, config)
        cluster.configs.move(order.vmid, order.target)
        self._moved = True

    def _local_volumes(self, config: CtConfig) -> list[str]:
        """Return the ids of the volumes to copy. Raise if one of them cannot be copied."""
        cluster, order = self._cluster, self._order
        found: dict[str, str] = {}
        errors: dict[str, str] = {}
        for storage in cluster.storages_of(order.source):
            if not storage.shared:
                for ref in owned_volumes(cluster, storage, order.vmid, order.source):
                    found[f"{storage.id}:{ref.name}"] = "via storage"
        sections: list[tuple[str | None, Options]] = [*config.snapshots.items(), (None, config.options)]
        for snapshot, section in sections:
            for point in mount_points(section):
                if point.type is not MountType.VOLUME:
                    continue
                storage, ref = cluster.locate(point.volume, order.source)
                if storage.shared:
                    if snapshot is None:
                        self._say(f"volume '{point.volume}' is on shared storage '{storage.id}'")
                    continue
                found[point.volume] = "referenced by snapshot(s)" if snapshot else "in current VM config"
                owner = storage.parse(ref.name).owner
                if owner != order.vmid:
                    errors.setdefault(point.volume, f"owned by other guest (owner = {owner})")
                elif snapshot is not None:
                    errors.setdefault(point.volume, "non-migratable snapshot exists")
        for volid, where in sorted(found.items()):
            self._say(f"found local volume '{volid}' ({where})")
        for volid, text in sorted(errors.items()):
            self._say(f"can't migrate local volume '{volid}': {text}")
        if errors:
            raise OperationError("can't migrate CT - check log")
        return sorted(found)

    def _copy(self, storage: Storage, ref: VolumeRef) -> VolumeRef:
        """Copy a volume to the target, under the same name unless that is taken there."""
        cluster, order = self._cluster, self._order
        target = cluster.storage(order.storages.of(storage.id))
        copy = cluster.place(target, order.target, _name_on(target, order.vmid, storage, ref.name))
        if cluster.runtime.volumes.get(copy) is not None:
            copy = next_volume(cluster, target, order.target, order.vmid)
        cluster.require_space(target, copy.name)
        cluster.runtime.volumes.copy(ref, copy)
        self._say(f"successfully imported '{copy.storage}:{copy.name}'")
        return copy

    def _remove_source_volumes(self) -> None:
        for volid, ref in self._copied.items():
            try:
                free(self._cluster, ref, self._task.say)
            except ApiError as error:
                self._say(f"ERROR: removing local copy of '{volid}' failed - {error.text}")
                self._failed_removals = True

    def _clean_up(self) -> None:
        """Remove the lock, and start a container that was stopped for the migration."""
        cluster, order = self._cluster, self._order
        node = order.target if self._moved else order.source
        self._say("start final cleanup")
        config = cluster.configs.load(order.vmid, node)
        config.options.pop("lock", None)
        cluster.configs.save(order.vmid, node, config)
        if self._was_running:
            self._say(f"start container on {'target' if self._moved else 'source'} node")
            start(cluster, order.vmid, node, config)


def _name_on(target: Storage, vmid: int, source: Storage, name: str) -> str:
    plain = source.parse(name).file.removesuffix(".raw")
    return plain if target.type.is_lvm else f"{vmid}/{plain}.raw"


def _rename_volumes(section: Options, renamed: Mapping[str, str]) -> None:
    for key in MOUNT_KEYS:
        if key not in section:
            continue
        point = parse(key, str(section[key]))
        if renamed.get(point.volume, point.volume) != point.volume:
            section[key] = str(point.on(renamed[point.volume], point.size))
    for key in UNUSED_KEYS:
        if key in section:
            section[key] = renamed.get(str(section[key]), str(section[key]))
