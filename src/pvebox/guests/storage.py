"""Storage definitions, and the names of volumes with their owners."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pvebox.api.errors import OperationError
from pvebox.runtime.contract import SHARED

_LVM_NAME = re.compile(r"((vm|base)-(\d+)-\S+)\Z")
# Names of logical volumes that Proxmox accepts, and names that LVM accepts.
_LVM_LETTERS = re.compile(r"[a-z0-9][a-z0-9\-_.]*[a-z0-9]\Z", re.IGNORECASE | re.ASCII)
_LVM_OWN_LETTERS = re.compile(r"[a-zA-Z0-9+_.][a-zA-Z0-9+_.\-]{0,127}\Z")
_DIR_IMAGE = re.compile(r"(\d+)/(\S+)\Z", re.ASCII)
_IMAGE_FILE = re.compile(r"(vm|base|subvol)-\d+-[^/\s]+\.(raw|qcow2|vmdk|subvol)\Z", re.ASCII)
_DIR_FILE = re.compile(r"(vztmpl|iso|backup|snippets)/([^/]+)\Z")
_BACKUP_OWNER = re.compile(r"vzdump-(?:lxc|qemu|openvz)-(\d+)-.+")
_BACKUP = re.compile(r"backup/(?!\.)[^/]+\.(tgz|(tar|vma)(\.(gz|lzo|zst|bz2))?)\Z")
_SNAPSHOT: Final = "snap_"
_TEMPLATE_SUFFIX: Final = (".tar.gz", ".tar.xz", ".tar.zst", ".tar")
_VOLUME_ID = re.compile(r"([a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]):(.+)\Z")


# The settings that have a field of their own.
_USED: Final = frozenset({"type", "content", "path", "vgname", "thinpool", "nodes"})


class StorageType(StrEnum):
    """The storage types that the sandbox supports. A share is a folder of the sandbox, and no server is asked."""

    DIR = "dir"
    NFS = "nfs"
    CIFS = "cifs"
    LVM = "lvm"
    LVM_THIN = "lvmthin"

    @property
    def is_lvm(self) -> bool:
        """Whether volumes are logical volumes, and not files."""
        return self in (StorageType.LVM, StorageType.LVM_THIN)

    @property
    def is_share(self) -> bool:
        """Whether the files are on a server that all nodes mount."""
        return self in (StorageType.NFS, StorageType.CIFS)


@dataclass(frozen=True)
class VolumeName:
    """A parsed volume name: content type, file name and the VMID of the owner."""

    content: str
    file: str
    owner: int | None
    is_base: bool = False


@dataclass(frozen=True)
class Storage:
    """A storage definition of the cluster."""

    id: str
    type: StorageType
    content: tuple[str, ...]
    path: str = "/var/lib/vz"
    vgname: str = "pve"
    thinpool: str = "data"
    nodes: frozenset[str] = field(default_factory=frozenset)
    # Other settings of the definition, as texts.
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def disabled(self) -> bool:
        """Whether an administrator has disabled the storage."""
        return self.settings.get("disable", "0") == "1"

    @property
    def shared(self) -> bool:
        """Whether all nodes see the same volumes."""
        return self.type.is_share or self.settings.get("shared", "0") == "1"

    @property
    def prune_backups(self) -> str | None:
        """Which backups a job keeps."""
        return self.settings.get("prune-backups")

    @property
    def max_protected_backups(self) -> int | None:
        """How many backups of a guest may be protected."""
        found = self.settings.get("max-protected-backups")
        return None if found is None else int(found)

    def home(self, node: str) -> str:
        """Return the place of the storage's volumes: the node, or one place for all nodes."""
        return SHARED if self.shared else node

    def parse(self, name: str) -> VolumeName:
        """Parse the name of a volume on this storage, or raise Proxmox's error."""
        if self.type.is_lvm:
            if not _LVM_LETTERS.match(name):
                raise OperationError(f"lvm name '{name}' contains illegal characters")
            found = _LVM_NAME.match(name)
            if not found:
                raise OperationError(f"unable to parse lvm volume name '{name}'")
            return VolumeName("images", name, int(found[3]), found[2] == "base")
        image = _DIR_IMAGE.match(name)
        if image:
            prefix, _ = parse_image_file(image[2])
            return VolumeName("images", image[2], int(image[1]), prefix == "base")
        file = _DIR_FILE.match(name)
        if file and _has_suffix_of(file[1], name):
            owner = _BACKUP_OWNER.match(file[2]) if file[1] == "backup" else None
            return VolumeName(file[1], file[2], int(owner[1]) if owner else None)
        raise OperationError(f"unable to parse directory volume name '{name}'")

    def device(self, name: str) -> str:
        """Return the path that Proxmox shows for a volume."""
        if self.type.is_lvm:
            return f"/dev/{self.vgname}/{name}"
        parsed = self.parse(name)
        directory = {
            "images": f"images/{parsed.owner}",
            "vztmpl": "template/cache",
            "iso": "template/iso",
            "backup": "dump",
        }.get(parsed.content, parsed.content)
        return f"{self.path}/{directory}/{parsed.file}"

    def missing(self, name: str) -> str:
        """Return Proxmox's error message for a volume that does not exist."""
        if self.type.is_lvm:
            return f"no such logical volume {self.vgname}/{name}"
        return f"volume '{self.id}:{name}' does not exist"

    def disk_name(self, vmid: int, taken: Iterable[str], *, subvol: bool = False) -> str:
        """Return the name of a container's next volume, with the first free number."""
        used = set()
        pattern = re.compile(rf"(?:{vmid}/)?(?:vm|base|subvol|basevol)-{vmid}-disk-(\d+)")
        for name in taken:
            found = pattern.match(name)
            if found:
                used.add(int(found[1]))
        number = next(n for n in range(len(used) + 1) if n not in used)
        if self.type.is_lvm:
            return f"vm-{vmid}-disk-{number}"
        return f"{vmid}/subvol-{vmid}-disk-{number}.subvol" if subvol else f"{vmid}/vm-{vmid}-disk-{number}.raw"

    def base_name(self, name: str) -> str:
        """Return the name that a volume gets when its container becomes a template."""
        return re.sub(r"(^|/)vm-", r"\1base-", name, count=1)


def _has_suffix_of(content: str, name: str) -> bool:
    if content == "vztmpl":
        return name.endswith(_TEMPLATE_SUFFIX)
    return content != "backup" or is_backup(name)


def storage_from(name: str, entry: Mapping[str, Any]) -> Storage:
    """Return the storage that an entry of a fixture defines."""
    kind = StorageType(entry["type"])
    return Storage(
        id=name,
        type=kind,
        content=tuple(entry["content"]),
        path=entry.get("path", f"/mnt/pve/{name}" if kind.is_share else "/var/lib/vz"),
        vgname=entry.get("vgname", "pve"),
        thinpool=entry.get("thinpool", "data"),
        nodes=frozenset(entry.get("nodes", ())),
        settings={key: str(value) for key, value in entry.items() if key not in _USED},
    )


def storage_entry(storage: Storage) -> dict[str, Any]:
    """Return the entry of a fixture that defines a storage."""
    entry: dict[str, Any] = {"type": str(storage.type), "content": list(storage.content)}
    if storage.type is StorageType.LVM_THIN:
        entry |= {"vgname": storage.vgname, "thinpool": storage.thinpool}
    elif storage.type is StorageType.LVM:
        entry["vgname"] = storage.vgname
    else:
        entry["path"] = storage.path
    if storage.nodes:
        entry["nodes"] = sorted(storage.nodes)
    return {**entry, **storage.settings}


def is_backup(name: str) -> bool:
    """Return whether a file of a storage is a backup. Its log and its notes are not."""
    return _BACKUP.match(name) is not None


def parse_image_file(name: str) -> tuple[str, str]:
    """Return prefix and format of an image's file name, or raise Proxmox's error."""
    found = _IMAGE_FILE.match(name)
    if not found:
        raise OperationError(f"unable to parse volume filename '{name}'")
    return found[1], found[2]


def require_lvm_name(vgname: str, name: str) -> None:
    """Raise lvcreate's error unless the name is valid for a logical volume."""
    if "/" in name:
        raise OperationError(f"lvcreate '{vgname}/{name}' error:   \"{name}\": Invalid path for Logical Volume.")
    if not _LVM_OWN_LETTERS.match(name):
        raise OperationError(f"lvcreate '{vgname}/{name}' error:   Logical volume name \"{name}\" is invalid.")


def parse_volume_id(volid: str) -> tuple[str, str] | None:
    """Return storage and name of a volume id, or None if the text is not a volume id."""
    found = _VOLUME_ID.match(volid)
    return (found[1], found[2]) if found else None


def split_volume_id(volid: str) -> tuple[str, str]:
    """Return storage and name of a volume id, or raise Proxmox's error."""
    parts = parse_volume_id(volid)
    if parts is None:
        raise OperationError(f"unable to parse volume ID '{volid}'")
    return parts


def snapshot_name(name: str, snapshot: str) -> str:
    """Return the name of a volume's snapshot on LVM-thin."""
    return f"{_SNAPSHOT}{name}_{snapshot}"


def is_snapshot(name: str) -> bool:
    """Return whether a volume is a snapshot of another one. No other volume can have such a name."""
    return name.startswith(_SNAPSHOT)
