"""Take, delete and roll back snapshots of containers. They include volumes of other containers.

As in Proxmox, the lock file of the config is held only while the config changes. During the work on the volumes the
config has a `lock` instead, which other requests report at once.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from pvebox.api.errors import ApiError, OperationError
from pvebox.cluster.cluster import Cluster
from pvebox.guests.config import CtConfig, Options
from pvebox.guests.disks import Log
from pvebox.guests.features import has_feature
from pvebox.guests.mountpoint import MountType, add_unused, mount_points
from pvebox.guests.storage import Storage, snapshot_name
from pvebox.runtime.contract import VolumeBusyError, VolumeRef

# These options describe the container itself and are not part of a snapshot.
_NOT_COPIED: Final = ("lock", "description", "snapstate", "snaptime")


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of a container, existing or not, and the log of the task that works on it."""

    cluster: Cluster
    vmid: int
    node: str
    name: str
    say: Log

    def take(self, description: str) -> None:
        """Take a snapshot of all volumes that the container mounts. If that fails, remove the copies."""
        section = self._prepare(description)
        made: set[str] = set()
        try:
            with self._frozen():
                for point in mount_points(section):
                    self._copy_volume(point.volume)
                    made.add(point.key)
        except Exception as error:  # NodeCrashError is a BaseException: a crashed node does not clean up
            self._clean_up(made)
            if isinstance(error, ApiError):
                # Proxmox adds a newline to the volume's error, which the task's exit status shows as a blank.
                raise OperationError(f"{error.message}\n") from None
            raise
        with self._changing() as config:
            self._require_lock(config, "snapshot", "missing snapshot lock")
            del config.section(self.name)["snapstate"]
            del config.options["lock"]
            config.options["parent"] = self.name

    def delete(self, *, force: bool) -> None:
        """Delete the snapshot. With `force`, errors of its volumes do not keep it in the config."""
        self._load().section(self.name)
        with self._changing() as config:
            config.require_unlocked()
            config.options["lock"] = "snapshot-delete"
        self._remove("snapshot-delete", None, force=force)

    def roll_back(self) -> None:
        """Stop the container and roll it back. If a volume is in use, the container stays locked, half rolled back."""
        with self._locked():
            config, section = self._to_roll_back()
            if "snapstate" in section:
                state = section["snapstate"]
                raise OperationError(f"unable to rollback to incomplete snapshot (snapstate = {state})")
            config.require_unlocked()
            if self.cluster.runtime.containers.running(self.vmid):
                self.cluster.runtime.containers.stop(self.vmid)
                config, section = self._to_roll_back()
            config.options["lock"] = "rollback"
            self._save(config)
        for point in mount_points(section):
            self._roll_back_volume(point.volume)
        with self._locked():
            config, section = self._to_roll_back()
            if self.cluster.runtime.containers.running(self.vmid):
                raise OperationError(f"unable to rollback vm {self.vmid}: vm is running")
            self._require_lock(config, "rollback", "got wrong lock")
            _apply(config, section)
            config.options["parent"] = self.name
            self._save(config)

    def _prepare(self, description: str) -> Options:
        """Check that the snapshot is possible, and write it into the config as being prepared."""
        with self._changing() as config:
            if config.flag("template"):
                raise OperationError("you can't take a snapshot if it's a template")
            config.require_unlocked()
            if self.name in config.snapshots:
                raise OperationError(f"snapshot name '{self.name}' already used")
            if not has_feature(self.cluster, "snapshot", config.options):
                raise OperationError("snapshot feature is not available")
            for other in config.snapshots.values():
                # Left by an earlier snapshot of this name; it would make a cycle.
                if other.get("parent") == self.name:
                    del other["parent"]
            section: Options = {**_copied(config.options), "snapstate": "prepare", "snaptime": int(time.time())}
            if description:
                section["description"] = description.rstrip("\n") + "\n"
            config.snapshots[self.name] = section
            config.options["lock"] = "snapshot"
        return section

    def _clean_up(self, made: set[str]) -> None:
        self.say("snapshot create failed: starting cleanup")
        try:
            self._remove("snapshot", made, force=True)
        except ApiError as error:
            self.say(error.text)

    def _remove(self, lock: str, only: Collection[str] | None, *, force: bool) -> None:
        """Remove the snapshots of all volumes, or of the volumes under some keys, and then the config's section."""
        with self._changing() as config:
            self._require_own_lock(config, lock)
            if config.flag("template"):
                raise OperationError("you can't delete a snapshot if vm is a template")
            section = config.section(self.name)
            section["snapstate"] = "delete"
        unused: list[str] = []
        for point in mount_points(section):
            if only is None or point.key in only:
                try:
                    self._remove_volume(point.volume)
                    unused.append(point.volume)
                except ApiError as error:
                    if not force:
                        raise
                    self.say(error.text)
            if not force:
                self._drop(lock, point.key, point.volume)
        with self._changing() as config:
            self._require_own_lock(config, lock)
            config.section(self.name)
            config.drop_snapshot(self.name)
            del config.options["lock"]
            for volume in unused:
                # Saving drops the volumes that the container still mounts.
                add_unused(config.options, volume)

    def _drop(self, lock: str, key: str, volume: str) -> None:
        """Save that a volume has no snapshot any more, so that a deletion that fails later can be repeated."""
        with self._changing() as config:
            self._require_own_lock(config, lock)
            section = config.section(self.name)
            del section[key]
            add_unused(section, volume)

    def _copy_volume(self, volid: str) -> None:
        storage, ref, copy = self._volume(volid)
        action = f"lvcreate snapshot '{storage.vgname}/{copy.name}' error: "
        if self.cluster.runtime.volumes.get(ref) is None:
            raise OperationError(f"{action}  {_not_found(storage, ref)}")
        if self.cluster.runtime.volumes.get(copy) is not None:
            vg = storage.vgname
            raise OperationError(f'{action}  Logical Volume "{copy.name}" already exists in volume group "{vg}"')
        self.cluster.runtime.volumes.copy(ref, copy)
        self.say(f'  Logical volume "{copy.name}" created.')

    def _remove_volume(self, volid: str) -> None:
        storage, _, copy = self._volume(volid)
        if self.cluster.runtime.volumes.get(copy) is None:
            where = f"{storage.vgname}/{copy.name}"
            raise OperationError(f"lvremove snapshot '{where}' error:   {_not_found(storage, copy)}")
        self.cluster.runtime.volumes.remove(copy)
        self.say(f'  Logical volume "{copy.name}" successfully removed.')

    def _roll_back_volume(self, volid: str) -> None:
        """Replace a volume by its snapshot. As with LVM, the volume is removed first."""
        storage, ref, copy = self._volume(volid)
        lv = f"{storage.vgname}/{ref.name}"
        if self.cluster.runtime.volumes.get(ref) is None:
            raise OperationError(f"lvremove '{lv}' error:   {_not_found(storage, ref)}")
        try:
            self.cluster.runtime.volumes.remove(ref)
        except VolumeBusyError:
            said = f"Logical volume {lv} contains a filesystem in use."
            raise OperationError(f"lvremove '{lv}' error:   {said}") from None
        self.say(f'  Logical volume "{ref.name}" successfully removed.')
        if self.cluster.runtime.volumes.get(copy) is None:
            where = f"{storage.vgname}/{copy.name}"
            raise OperationError(f"lvm rollback '{where}' error:   {_not_found(storage, copy)}")
        self.cluster.runtime.volumes.copy(copy, ref)
        self.say(f'  Logical volume "{ref.name}" created.')

    def _volume(self, volid: str) -> tuple[Storage, VolumeRef, VolumeRef]:
        storage, ref = self.cluster.locate(volid, self.node)
        return storage, ref, VolumeRef(ref.node, ref.storage, snapshot_name(ref.name, self.name))

    def _to_roll_back(self) -> tuple[CtConfig, Options]:
        config = self._load()
        if config.flag("template"):
            raise OperationError("you can't rollback if vm is a template")
        return config, config.section(self.name)

    def _frozen(self) -> AbstractContextManager[None]:
        containers = self.cluster.runtime.containers
        return containers.frozen(self.vmid) if containers.running(self.vmid) else nullcontext()

    def _require_lock(self, config: CtConfig, lock: str, complaint: str) -> None:
        if config.text("lock") != lock:
            raise OperationError(complaint)

    def _require_own_lock(self, config: CtConfig, lock: str) -> None:
        self._require_lock(config, lock, f"encountered invalid lock, expected '{lock}'")

    def _changing(self) -> AbstractContextManager[CtConfig]:
        return self.cluster.configs.changing(self.vmid, self.node, self.say)

    def _locked(self) -> AbstractContextManager[None]:
        return self.cluster.configs.lock(self.vmid, self.say)

    def _load(self) -> CtConfig:
        return self.cluster.configs.load(self.vmid, self.node)

    def _save(self, config: CtConfig) -> None:
        self.cluster.configs.save(self.vmid, self.node, config)


def _not_found(storage: Storage, ref: VolumeRef) -> str:
    return f'Failed to find logical volume "{storage.vgname}/{ref.name}"'


def _copied(section: Options) -> Options:
    return {key: value for key, value in section.items() if key not in _NOT_COPIED and not key.startswith("unused")}


def _apply(config: CtConfig, section: Options) -> None:
    """Replace the config by a snapshot's. The description stays, and volumes that the snapshot does not mount."""
    wanted = {point.volume for point in mount_points(section) if point.type is MountType.VOLUME}
    for point in mount_points(config.options):
        if point.type is MountType.VOLUME and point.volume not in wanted:
            add_unused(config.options, point.volume)
    kept = {key: value for key, value in config.options.items() if key.startswith("unused") or key == "description"}
    config.options = {**kept, **_copied(section)}
    config.pending.clear()
    config.pending_delete.clear()
