"""The backup of one container, in the modes stop, suspend and snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from pvebox.api.errors import AbortedError, ApiError, OperationError, SandboxError
from pvebox.backups import files as backupfiles
from pvebox.backups import prune
from pvebox.backups.order import BackupLog, JobOrder, fill_template, local_time
from pvebox.backups.prune import Retention
from pvebox.backups.snapshot import BackupSnapshot
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.tasks import Task
from pvebox.guests import config as ct
from pvebox.guests.config import CtConfig
from pvebox.guests.lifecycle import start
from pvebox.guests.mountpoint import MountPoint, MountType, mount_points
from pvebox.guests.storage import Storage, StorageType
from pvebox.runtime.contract import STANDARD_EXCLUDES, ArchiveOrder, ContainerSpec, Mount, NotMountableError

# These parts of a config are not in a backup.
_NOT_SAVED: Final = ("lock", "parent")


class _NoSnapshotsError(OperationError):
    """A volume's storage has no snapshots."""


class GuestBackup:
    """One backup of one container. After `run`, only the archive and the files beside it are left."""

    def __init__(
        self, cluster: Cluster, order: JobOrder, storage: Storage, retention: Retention, vmid: int, task: Task
    ) -> None:
        self._cluster = cluster
        self._order = order
        self._storage = storage
        self._retention = retention
        self._vmid = vmid
        self._task = task
        self._log = BackupLog(task)
        self._began = time.time()
        self._stamp = self._free_stamp()
        self._hostname = f"CT{vmid}"
        self._locked = False
        self._restart = False
        self._away_since: float | None = None
        self._snapshot: BackupSnapshot | None = None

    def run(self) -> bool:
        """Back the container up, clean up and write the log file; return whether the backup succeeded."""
        error: str | None = None
        try:
            self._perform()
        except ApiError as failure:
            error = failure.printed
        except SandboxError as failure:
            error = failure.message
        except AbortedError:
            error = "received interrupt"
        except Exception:  # NodeCrashError is a BaseException: a crashed node does not clean up
            self._clean_up()
            raise
        self._clean_up()
        if error is not None:
            self._log.error(f"Backup of VM {self._vmid} failed - {error}")
            self._task.say(f"INFO: Failed at {local_time()}")
        else:
            took = int(time.time() - self._began)
            duration = f"{took // 3600:02}:{took // 60 % 60:02}:{took % 60:02}"
            self._log.info(f"Finished Backup of VM {self._vmid} ({duration})")
            self._task.say(f"INFO: Backup finished at {local_time()}")
        if self._log.begun:
            name = backupfiles.log_name(self._vmid, self._stamp)
            self._cluster.runtime.write_text(self._order.node, self._storage.id, name, self._log.text)
        return error is None

    def _free_stamp(self) -> str:
        """Return the time in the archive's name. A simulated backup is fast: the second may already have one."""
        taken = self._cluster.runtime.files(self._order.node, self._storage.id)
        when = self._began
        while True:
            stamp = time.strftime(backupfiles.TIME_FORMAT, time.localtime(when))
            if backupfiles.log_name(self._vmid, stamp) not in taken:
                return stamp
            when += 1

    def _perform(self) -> None:
        if not self._cluster.configs.exists(self._vmid):
            raise OperationError(f"unable to find VM '{self._vmid}'")
        self._require_room()
        self._log.begin()
        self._log.info(f"Starting Backup of VM {self._vmid} (lxc)")
        self._task.say(f"INFO: Backup started at {local_time()}")
        running = self._cluster.runtime.containers.running(self._vmid)
        self._log.info(f"status = {'running' if running else 'stopped'}")
        self._lock()
        mode, mounts = self._begin(self._order.mode if running else "stop")
        if mode == "stop":
            if running:
                self._stop()
        elif mode == "suspend":
            mounts = self._copy_suspended(mounts)
        else:
            mounts = self._take_snapshot(mounts)
        self._archive(mounts)

    def _require_room(self) -> None:
        """Raise if the guest has as many backups as the retention or the protection allows."""
        cluster, order, storage = self._cluster, self._order, self._storage
        if order.protected:
            limit = backupfiles.protection_limit(cluster, storage, order.user)
            if limit is not None:
                backupfiles.require_protectable(cluster, order.node, storage, self._vmid, "lxc", limit)
            return
        kept = 0 if self._retention.get("keep-all") else sum(self._retention.values())
        if not kept or order.remove:
            return
        backups = backupfiles.listing(cluster, order.node, storage, self._vmid)
        if len([backup for backup in backups if backup.kind == "lxc" and not backup.protected]) >= kept:
            raise OperationError(
                f"There is a max backup limit of {kept} enforced by the target storage or the vzdump parameters."
                " Either increase the limit or delete old backups."
            )

    def _settle(self, name: str) -> None:
        """Add notes to the new backup, protect it and prune older ones, as the order says."""
        cluster, order, storage = self._cluster, self._order, self._storage
        if order.notes_template:
            self._log.info("adding notes to backup")
            values = {
                "cluster": cluster.name if len(cluster.nodes) > 1 else "standalone node",
                "guestname": self._hostname,
                "node": order.node,
                "vmid": str(self._vmid),
            }
            notes = fill_template(order.notes_template, values)
            backupfiles.set_notes(cluster, order.node, storage, name, notes)
        if order.protected:
            self._log.info("marking backup as protected")
            backupfiles.set_protected(cluster, order.node, storage, name, protected=True, limit=None)
        if order.remove and not self._retention.get("keep-all"):
            self._log.info(f"prune older backups with retention: {prune.print_retention(self._retention, ', ')}")
            count = prune.prune(cluster, order.node, storage, self._retention, self._vmid, "lxc", self._log.info)
            extra = " not covered by keep-retention policy" if count else ""
            self._log.info(f"pruned {count} backup(s){extra}")

    def _lock(self) -> None:
        with self._cluster.configs.changing(self._vmid, self._order.node) as config:
            config.require_unlocked()
            config.options["lock"] = "backup"
        self._locked = True

    def _begin(self, mode: str) -> tuple[str, list[Mount]]:
        """Log the mode and the mount points; return the mode and the mounts that the backup includes."""
        mounts: list[Mount] = []
        if mode == "snapshot":
            try:
                mounts = self._included(needs_snapshots=True)
            except _NoSnapshotsError as error:
                self._log.info(error.text, "trying 'suspend' mode instead")
                mode = "suspend"
        self._log.info(f"backup mode: {mode}")
        if self._order.bwlimit:
            self._log.info(f"bandwidth limit: {self._order.bwlimit} KiB/s")
        self._log.info(f"ionice priority: {self._order.ionice}")
        return mode, mounts if mode == "snapshot" else self._included()

    def _included(self, *, needs_snapshots: bool = False) -> list[Mount]:
        cluster, node = self._cluster, self._order.node
        config = cluster.configs.load(self._vmid, node)
        hostname = config.text("hostname")
        if hostname is not None:
            self._hostname = hostname
            self._log.info(f"CT Name: {hostname}")
        points = []
        for point in mount_points(config.options):
            if point.backed_up:
                self._log.info(f"including mount point {point.key} ('{point.path}') in backup")
                points.append(point)
            else:
                why = "disabled" if point.type is MountType.VOLUME else "not a volume"
                self._log.info(f"excluding {point.type} mount point {point.key} ('{point.path}') from backup ({why})")
        if needs_snapshots and not all(self._has_snapshots(point) for point in points):
            raise _NoSnapshotsError("mode failure - some volumes do not support snapshots")
        for point in points:
            if point.type is MountType.VOLUME:
                cluster.existing(point.volume, node)
        return [cluster.mount(point, node) for point in points]

    def _has_snapshots(self, point: MountPoint) -> bool:
        if point.type is not MountType.VOLUME:
            return False
        return self._cluster.locate(point.volume, self._order.node)[0].type is StorageType.LVM_THIN

    def _stop(self) -> None:
        self._log.info("stopping virtual guest")
        self._away_since = time.time()
        if not self._cluster.runtime.containers.shutdown(self._vmid, self._order.stop_minutes * 60):
            raise OperationError("container did not stop")
        self._restart = True

    def _copy_suspended(self, mounts: list[Mount]) -> list[Mount]:
        """Copy the volumes while the container is frozen. Proxmox copies the files, with rsync."""
        usage = self._cluster.runtime.containers.usage(self._vmid)
        directory = f"{self._storage.path}/dump/vzdump-lxc-{self._vmid}-{self._stamp}.tmp"
        between = f"sync /proc/{usage.pid}/root/ to {directory}"
        self._log.info(
            f"starting first {between}",
            f"first sync finished - transferred {usage.disk / 1e6:.2f}M bytes in 0s",
            "suspending guest",
        )
        self._away_since = time.time()
        snapshot = self._snapshot = BackupSnapshot(self._cluster, self._vmid, self._order.node, self._task)
        with self._cluster.runtime.containers.frozen(self._vmid):
            self._log.info(f"starting final {between}")
            copies = snapshot.copy(mounts)
            self._log.info("final sync finished - transferred 0 bytes in 0s", "resuming guest")
        self._say_online()
        return copies

    def _take_snapshot(self, mounts: list[Mount]) -> list[Mount]:
        """Snapshot the volumes while the container is frozen. Proxmox logs that only for several volumes."""
        several = len(mounts) > 1
        if several:
            self._log.info("suspend vm to make snapshot")
            self._away_since = time.time()
        snapshot = self._snapshot = BackupSnapshot(self._cluster, self._vmid, self._order.node, self._task)
        with self._cluster.runtime.containers.frozen(self._vmid):
            self._log.info("create storage snapshot 'vzdump'")
            taken = snapshot.take(mounts)
        if several:
            self._log.info("resume vm")
            self._say_online()
        return taken

    def _say_online(self) -> None:
        if self._away_since is not None:
            seconds = int(time.time() - self._away_since)
            self._log.info(f"guest is online again after {seconds or '<1'} seconds")

    def _archive(self, mounts: list[Mount]) -> None:
        cluster, order, storage = self._cluster, self._order, self._storage
        config = cluster.configs.load(self._vmid, order.node)
        kept = {key: value for key, value in config.options.items() if key not in _NOT_SAVED}
        text = ct.write(CtConfig(options=kept, raw_lxc=list(config.raw_lxc)))
        name = f"backup/vzdump-lxc-{self._vmid}-{self._stamp}{order.suffix}"
        path = storage.device(name)
        self._log.info(f"creating vzdump archive '{path}'")
        for pattern in order.exclude:
            if pattern.endswith("/"):
                self._log.warn(f"tar does not match exclusion with a trailing slash '{pattern}'")
        wanted = ArchiveOrder(
            ContainerSpec(self._vmid, order.node, config, mounts),
            cluster.runtime.file(order.node, storage.id, name),
            path,
            text,
            (*order.exclude, *(STANDARD_EXCLUDES if order.standard_excludes else ())),
        )
        self._task.check_aborted()
        try:
            size = cluster.runtime.containers.archive(wanted, self._task, self._log.info)
        except NotMountableError as error:
            target = next(mount.path for mount in mounts if mount.key == str(error))
            raise OperationError(f"command 'mount /dev/dm-0 /mnt/vzsnap0/{target}' failed: exit code 32") from None
        cluster.runtime.note_file(order.node, storage.id, name, size, text)
        self._log.info(f"archive file size: {_format_size(size)}")
        self._settle(name)

    def _clean_up(self) -> None:
        """Undo the changes of the backup. An error in one step is logged, and the next step follows."""
        if self._locked:
            self._attempt(lambda: self._cluster.configs.unlock(self._vmid, self._order.node))
        if self._snapshot is not None:
            if self._snapshot.in_config:
                self._log.info("cleanup temporary 'vzdump' snapshot")
            self._attempt(self._snapshot.remove)
        if self._restart and not self._cluster.runtime.containers.running(self._vmid):
            self._log.info("restarting vm")
            self._attempt(self._start_again)

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except ApiError as error:
            self._task.say(error.text)

    def _start_again(self) -> None:
        cluster, vmid, node = self._cluster, self._vmid, self._order.node
        with cluster.configs.lock(vmid):
            start(cluster, vmid, node, cluster.configs.load(vmid, node))
        self._say_online()


def _format_size(size: int) -> str:
    if size < 1 << 20:
        return f"{size >> 10}KB"
    if size < 1 << 30:
        return f"{size >> 20}MB"
    return f"{size / (1 << 30):.2f}GB" if size < 1 << 40 else f"{size / (1 << 40):.2f}TB"
