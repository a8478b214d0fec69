"""The temporary snapshot that a backup of a running container reads from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.tasks import Task
from pvebox.guests.config import Options
from pvebox.guests.storage import StorageType, snapshot_name
from pvebox.runtime.contract import Mount, VolumeRef

NAME: Final = "vzdump"
_NOT_COPIED: Final = ("lock", "description", "template", "unused")


class BackupSnapshot:
    """Copies of the volumes in a backup. In the mode snapshot the container's config has the snapshot too."""

    def __init__(self, cluster: Cluster, vmid: int, node: str, task: Task) -> None:
        self._cluster = cluster
        self._vmid = vmid
        self._node = node
        self._task = task
        self._made: list[VolumeRef] = []
        self.in_config = False

    def take(self, mounts: Sequence[Mount]) -> list[Mount]:
        """Snapshot the volumes, note the snapshot in the config, and return mounts of the snapshots."""
        self._drop_old()
        taken = self.copy(mounts)
        for ref in self._made:
            self._task.say(f'  Logical volume "{ref.name}" created.')
        self._note()
        return taken

    def copy(self, mounts: Sequence[Mount]) -> list[Mount]:
        """Copy the volumes and return mounts of the copies."""
        return [self._copied(mount) for mount in mounts]

    def remove(self) -> None:
        """Remove the copies, and the snapshot from the config."""
        for ref in self._made:
            self._cluster.runtime.volumes.remove(ref)
            if self.in_config:
                self._task.say(f'  Logical volume "{ref.name}" successfully removed.')
        self._made.clear()
        if self.in_config:
            self._forget()

    def _copied(self, mount: Mount) -> Mount:
        if not isinstance(mount.source, VolumeRef):
            return mount
        source = mount.source
        storage = self._cluster.storage(source.storage)
        thin = storage.type is StorageType.LVM_THIN
        # A copy on a directory storage gets a name that no volume can have, so that no list shows it.
        copy = replace(source, name=snapshot_name(source.name, NAME) if thin else f"{source.name}.{NAME}")
        if self._cluster.runtime.volumes.get(copy) is not None:
            lv = f"{storage.vgname}/{copy.name}"
            raise OperationError(
                f"lvcreate snapshot '{lv}' error:   Logical Volume \"{copy.name}\" already exists"
                f' in volume group "{storage.vgname}"'
            )
        # Proxmox copies the files of a volume that has no snapshots, so that copy does not say that it is mounted.
        self._cluster.runtime.volumes.copy(source, copy, fresh=not thin)
        self._made.append(copy)
        return replace(mount, source=copy)

    def _drop_old(self) -> None:
        """Remove the snapshot of a backup that did not end, for example because the node crashed."""
        config = self._cluster.configs.load(self._vmid, self._node)
        if NAME not in config.snapshots:
            return
        self._task.say("INFO: found old vzdump snapshot (force removal)")
        for key, value in config.snapshots[NAME].items():
            if key == "rootfs" or (key.startswith("mp") and "backup=1" in str(value)):
                _, ref = self._cluster.locate(str(value).partition(",")[0], self._node)
                self._cluster.runtime.volumes.remove(replace(ref, name=snapshot_name(ref.name, NAME)))
        self._forget()

    def _note(self) -> None:
        with self._cluster.configs.changing(self._vmid, self._node) as config:
            section: Options = {key: value for key, value in config.options.items() if not key.startswith(_NOT_COPIED)}
            section |= {"snaptime": int(time.time()), "description": "vzdump backup snapshot\n"}
            config.snapshots[NAME] = section
            config.options["parent"] = NAME
        self.in_config = True

    def _forget(self) -> None:
        with self._cluster.configs.changing(self._vmid, self._node) as config:
            config.drop_snapshot(NAME)
        self.in_config = False
