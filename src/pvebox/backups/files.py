"""The backups on a storage: their names, notes and protection, and the files beside them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.cluster.cluster import Cluster
from pvebox.guests.storage import Storage, is_backup

NOTES: Final = ".notes"
_PROTECTED: Final = ".protected"
_LOG: Final = ".log"
_SUFFIX = re.compile(r"\.(tgz|(?:tar|vma)(?:\.(?:gz|lzo|zst|bz2))?)\Z")
_KIND = re.compile(r"vzdump-(lxc|openvz|qemu)-.+")
_STANDARD = re.compile(r"(vzdump-(?:lxc|openvz|qemu)-([1-9]\d{2,8})-(\d{4}_\d\d_\d\d-\d\d_\d\d_\d\d))\Z", re.ASCII)
_ANY_OWNER = re.compile(r"-([1-9]\d{2,8})-[^/]+\Z", re.ASCII)
TIME_FORMAT: Final = "%Y_%m_%d-%H_%M_%S"


@dataclass(frozen=True)
class Backup:
    """A backup on a storage."""

    storage: str
    file: str
    size: int
    ctime: int
    format: str
    kind: str
    vmid: int | None
    is_standard: bool
    notes: str | None
    protected: bool

    @property
    def volid(self) -> str:
        """The volume id of the backup."""
        return f"{self.storage}:backup/{self.file}"


@dataclass(frozen=True)
class _Name:
    """The facts in the file name of a backup. Only the standard name has the time of the backup."""

    format: str
    kind: str
    vmid: int | None
    stem: str | None
    ctime: int | None


def _parse(file: str) -> _Name:
    suffix = _SUFFIX.search(file)
    format_ = suffix[1] if suffix else ""
    stem = file[: suffix.start()] if suffix else file
    kind = _KIND.match(file)
    owner = _ANY_OWNER.search(stem)
    vmid = int(owner[1]) if owner else None
    standard = _STANDARD.match(stem)
    if kind and standard:
        try:
            when = int(time.mktime(time.strptime(standard[3], TIME_FORMAT)))
        except (ValueError, OverflowError):
            # Perl's timelocal fails for an impossible date, and then Proxmox does not know the kind either.
            return _Name(format_, "unknown", vmid, None, None)
        return _Name(format_, kind[1], int(standard[2]), standard[1], when)
    return _Name(format_, kind[1] if kind else "unknown", vmid, None, None)


def listing(cluster: Cluster, node: str, storage: Storage, vmid: int | None = None) -> list[Backup]:
    """Return the backups of a storage, or only those with a VMID in their names, sorted by name."""
    files = cluster.runtime.files(node, storage.id)
    found = []
    for path in sorted(path for path in files if is_backup(path)):
        file = path.removeprefix("backup/")
        if vmid is not None and f"-{vmid}-" not in file:
            continue
        name = _parse(file)
        notes = cluster.runtime.read_text(node, storage.id, path + NOTES)
        size, changed = files[path]
        found.append(
            Backup(
                storage=storage.id,
                file=file,
                size=size,
                ctime=changed if name.ctime is None else name.ctime,
                format=name.format,
                kind=name.kind,
                vmid=name.vmid if vmid is None else vmid,
                is_standard=name.stem is not None,
                notes=None if notes is None else notes.split("\n", 1)[0],
                protected=path + _PROTECTED in files,
            )
        )
    return found


def is_protected(cluster: Cluster, node: str, storage: Storage, name: str) -> bool:
    """Return whether a backup is protected. The name begins with `backup/`, here and below."""
    return name + _PROTECTED in cluster.runtime.files(node, storage.id)


def notes_of(cluster: Cluster, node: str, storage: Storage, name: str) -> str:
    """Return the notes of a backup."""
    return cluster.runtime.read_text(node, storage.id, name + NOTES) or ""


def set_notes(cluster: Cluster, node: str, storage: Storage, name: str, notes: str) -> None:
    """Write the notes of a backup, or remove them. As in Proxmox, the backup need not exist."""
    if notes:
        cluster.runtime.write_text(node, storage.id, name + NOTES, notes)
    else:
        cluster.runtime.remove_file(node, storage.id, name + NOTES)


def set_protected(
    cluster: Cluster, node: str, storage: Storage, name: str, *, protected: bool, limit: int | None
) -> None:
    """Protect a backup or lift its protection. Raise if the guest has `limit` protected backups already."""
    if protected == is_protected(cluster, node, storage, name):
        return
    if not protected:
        cluster.runtime.remove_file(node, storage.id, name + _PROTECTED)
        return
    named = _parse(name.removeprefix("backup/"))
    if limit is not None and named.vmid is not None:
        require_protectable(cluster, node, storage, named.vmid, named.kind, limit)
    cluster.runtime.write_text(node, storage.id, name + _PROTECTED, "")


def require_protectable(cluster: Cluster, node: str, storage: Storage, vmid: int, kind: str, limit: int) -> None:
    """Raise if a guest has `limit` protected backups or more."""
    protected = [backup for backup in listing(cluster, node, storage, vmid) if backup.protected and backup.kind == kind]
    if len(protected) >= limit:
        raise OperationError(
            f"The number of protected backups per guest is limited to {limit} on storage '{storage.id}'"
        )


def protection_limit(cluster: Cluster, storage: Storage, user: str) -> int | None:
    """Return how many protected backups a guest may have: by default 5, or any number for an administrator."""
    if storage.max_protected_backups is not None:
        return storage.max_protected_backups if storage.max_protected_backups >= 0 else None
    return None if cluster.access.allows(user, f"/storage/{storage.id}", ["Datastore.Allocate"]) else 5


def remove(cluster: Cluster, node: str, storage: Storage, name: str) -> None:
    """Remove a backup that is not protected, its log and its notes."""
    if is_protected(cluster, node, storage, name):
        raise OperationError(f"cannot remove protected archive '{storage.device(name)}'")
    cluster.runtime.remove_file(node, storage.id, name)
    remove_beside(cluster, node, storage, name)


def remove_beside(cluster: Cluster, node: str, storage: Storage, name: str) -> None:
    """Remove the log and the notes of a backup with a standard name."""
    stem = _parse(name.removeprefix("backup/")).stem
    if stem is not None:
        cluster.runtime.remove_file(node, storage.id, f"backup/{stem}{_LOG}")
        cluster.runtime.remove_file(node, storage.id, name + NOTES)


def log_name(vmid: int, stamp: str) -> str:
    """Return the name of the log beside a container's backup."""
    return f"backup/vzdump-lxc-{vmid}-{stamp}{_LOG}"
