"""API methods: the definitions of storages."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pvebox.api import formats
from pvebox.api.errors import ApiError, OperationError
from pvebox.api.routes import STORAGE, Call, anybody, api, having
from pvebox.api.schema import FLAG, FormatError, Prop, Properties
from pvebox.backups.prune import RETENTION_PARTS
from pvebox.guests.storage import Storage, StorageType, storage_entry, storage_from

# Proxmox's storage types. The sandbox has some of them.
_TYPES: Final = (
    *("btrfs", "cephfs", "cifs", "dir", "esxi", "iscsi", "iscsidirect"),
    *("lvm", "lvmthin", "nfs", "pbs", "rbd", "zfs", "zfspool"),
)
_FILES: Final = ("images", "rootdir", "vztmpl", "iso", "backup", "snippets", "none", "import")
_CONTENT: Final = {
    **dict.fromkeys((StorageType.DIR, StorageType.NFS, StorageType.CIFS), _FILES),
    **dict.fromkeys((StorageType.LVM, StorageType.LVM_THIN), ("images", "rootdir")),
}
_REQUIRED: Final = {
    StorageType.DIR: ("path",),
    StorageType.NFS: ("export", "server"),
    StorageType.CIFS: ("server", "share"),
    StorageType.LVM: ("vgname",),
    StorageType.LVM_THIN: ("thinpool", "vgname"),
}
_COMMON: Final = ("nodes", "disable", "content", "bwlimit")
_OF_FILES: Final = (
    *_COMMON,
    "content-dirs",
    "prune-backups",
    "max-protected-backups",
    "format",
    "mkdir",
    "create-base-path",
    "create-subdirs",
    "preallocation",
    "snapshot-as-volume-chain",
)
_OPTIONAL: Final = {
    StorageType.DIR: (*_OF_FILES, "shared", "is_mountpoint"),
    StorageType.NFS: (*_OF_FILES, "path", "options"),
    StorageType.CIFS: (*_OF_FILES, "path", "options", "username", "domain", "subdir", "smbversion"),
    StorageType.LVM: (*_COMMON, "shared", "saferemove"),
    StorageType.LVM_THIN: _COMMON,
}
_TEXT: Final = Prop(optional=True)
_NUMBERS: Final = frozenset(
    {"disable", "shared", "mkdir", "create-base-path", "create-subdirs", "max-protected-backups"}
)
# The thin pool of Proxmox's installer.
_INSTALLED_POOL: Final = ("pve", "data")
# A second volume group of the simulated node, beside the installer's.
_EMPTY_GROUP: Final = "tank"


def _content_type(text: str) -> None:
    if text not in _FILES:
        raise FormatError(f"invalid content type '{text}'\n")


def _absolute_path(text: str) -> None:
    if not re.match(r"/[^;()]+", text):
        raise FormatError("value does not look like a valid absolute path\n")


_lvm_name = formats.matching(r"(?i)[a-z0-9][a-z0-9\-_.]*[a-z0-9]", "lvm name '{}' contains illegal characters")
_CHANGEABLE: Final[Properties] = {
    "nodes": Prop(optional=True, format=formats.list_of(formats.node)),
    "content": Prop(optional=True, format=formats.list_of(_content_type)),
    "disable": FLAG,
    "shared": FLAG,
    "format": Prop(optional=True, enum=("raw", "qcow2", "subvol", "vmdk")),
    "prune-backups": Prop(optional=True, format=RETENTION_PARTS),
    "max-protected-backups": Prop(type="integer", minimum=-1, optional=True),
    "bwlimit": _TEXT,
    "preallocation": Prop(optional=True, enum=("off", "metadata", "falloc", "full")),
    "content-dirs": _TEXT,
    "mkdir": FLAG,
    "create-base-path": FLAG,
    "create-subdirs": FLAG,
    "is_mountpoint": _TEXT,
    "snapshot-as-volume-chain": FLAG,
}
# Settings of the other storage types, which a request may name.
_OF_OTHER_TYPES: Final = (
    *("base", "blocksize", "comstar_hg", "comstar_tg", "data-pool", "datastore", "domain", "encryption-key", "export"),
    *("fingerprint", "fs-name", "fuse", "iscsiprovider", "keyring", "krbd", "lio_tpg", "master-pubkey", "monhost"),
    *("mountpoint", "namespace", "nowritecache", "options", "password", "pool", "port", "portal", "saferemove"),
    *("saferemove_throughput", "server", "share", "skip-cert-verification", "smbversion", "sparse", "subdir"),
    *("tagged_only", "target", "username", "zfs-base-path"),
)
_FIXED: Final[Properties] = {
    "path": Prop(optional=True, format=_absolute_path),
    "vgname": Prop(optional=True, format=_lvm_name),
    "thinpool": Prop(optional=True, format=_lvm_name),
}


@api.method("GET", "/storage", anybody, {"type": Prop(optional=True, enum=_TYPES)})
def definitions(call: Call) -> list[dict[str, Any]]:
    """Return the definitions of the storages that the caller may see."""
    return [
        _described(call, storage)
        for storage in call.cluster.storages.values()
        if call.allows(f"/storage/{storage.id}", "Datastore.Audit", "Datastore.AllocateSpace", any_of=True)
        and call.text("type") in (None, str(storage.type))
    ]


@api.method("GET", "/storage/{storage}", having("/storage/{storage}", "Datastore.Allocate"))
def definition(call: Call) -> dict[str, Any]:
    """Return the definition of a storage."""
    return _described(call, call.cluster.storage(str(call.params["storage"])))


def _described(call: Call, storage: Storage) -> dict[str, Any]:
    settings = {key: int(value) if key in _NUMBERS else value for key, value in _texts(storage).items()}
    digest = _digest(call.cluster.storages)
    return {"storage": storage.id, "type": str(storage.type), **settings, "digest": digest}


def _digest(storages: Mapping[str, Storage]) -> str:
    """Return the digest of the storage definitions. A client sends it with a change to detect other changes."""
    text = json.dumps([storage_entry(storage) for storage in storages.values()])
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@api.method(
    "POST",
    "/storage",
    having("/storage", "Datastore.Allocate"),
    {
        "storage": STORAGE,
        "type": Prop(enum=_TYPES),
        **_FIXED,
        **_CHANGEABLE,
        **dict.fromkeys(_OF_OTHER_TYPES, _TEXT),
    },
)
def create_storage(call: Call) -> dict[str, str]:
    """Define a storage. Its place on the simulated node is created."""
    name, kind = str(call.params["storage"]), str(call.params["type"])
    given = {key: str(value) for key, value in call.params.items() if key not in ("storage", "type")}
    if not given.get("nodes"):
        given.pop("nodes", None)
    if kind not in (*StorageType,):
        raise OperationError(f"create storage failed: pvebox has the storage types {', '.join(StorageType)} only")
    _check_options(StorageType(kind), given)
    made = _defined(name, StorageType(kind), given)
    if not made.type.is_lvm and not re.fullmatch(r"/[-/a-zA-Z0-9_.@]+", made.path):
        raise OperationError(f"illegal path for directory storage: {made.path}")
    if name in call.cluster.storages:
        raise OperationError(f"create storage failed: storage ID '{name}' already defined")
    try:
        _activate(call, made)
    except OperationError as error:
        raise OperationError(f"create storage failed: {error.message}") from None
    call.cluster.storages[name] = made
    call.cluster.settings_changed()
    return {"storage": name, "type": kind}


@api.method(
    "PUT",
    "/storage/{storage}",
    having("/storage", "Datastore.Allocate"),
    {
        "storage": STORAGE,
        **_CHANGEABLE,
        "delete": Prop(optional=True, format=formats.list_of(formats.configid), max_length=4096),
        "digest": Prop(optional=True, max_length=64),
    },
)
def change_storage(call: Call) -> dict[str, str]:
    """Change the definition of a storage."""
    given = {key: str(value) for key, value in call.params.items() if key not in ("storage", "delete", "digest")}
    dropped = formats.split_list(call.text("delete") or "")
    try:
        if call.text("digest") not in (None, _digest(call.cluster.storages)):
            raise OperationError("detected modified configuration - file changed by other user? Try again.")
        storage = call.cluster.storage(str(call.params["storage"]))
        _check_options(storage.type, given, create=False)
        _check_deleted(storage.type, given, dropped)
        settings = {key: value for key, value in {**_texts(storage), **given}.items() if key not in dropped}
        changed = _defined(storage.id, storage.type, settings)
    except ApiError as error:
        raise OperationError(f"update storage failed: {error.message}") from None
    call.cluster.storages[storage.id] = changed
    call.cluster.settings_changed()
    return {"storage": storage.id, "type": str(storage.type)}


@api.method("DELETE", "/storage/{storage}", having("/storage", "Datastore.Allocate"), {"storage": STORAGE})
def delete_storage(call: Call) -> None:
    """Forget a storage with its ACLs and pool memberships. Its volumes stay, for a storage of the same name."""
    name, cluster = str(call.params["storage"]), call.cluster
    if name not in cluster.storages:
        raise OperationError(f"delete storage failed: storage '{name}' does not exist")
    del cluster.storages[name]
    if name == "local":
        # Proxmox always has a storage of this name.
        content = ["backup", "images", "iso", "rootdir", "snippets", "vztmpl"]
        cluster.storages[name] = storage_from(name, {"type": "dir", "content": content, "prune-backups": "keep-all=1"})
    cluster.access.forget_storage(name)
    cluster.settings_changed()


def _texts(storage: Storage) -> dict[str, str]:
    """Return all settings of a storage as a request gives them."""
    entry = {key: value for key, value in storage_entry(storage).items() if key != "type"}
    return {key: ",".join(value) if isinstance(value, list) else str(value) for key, value in entry.items()}


def _defined(name: str, kind: StorageType, settings: Mapping[str, str]) -> Storage:
    lists = {key: formats.split_list(settings[key]) for key in ("content", "nodes") if key in settings}
    lists["content"] = _supported(kind, lists.get("content", ["images", "rootdir"]))
    return storage_from(name, {**settings, "type": str(kind), **lists})


def _supported(kind: StorageType, content: list[str]) -> list[str]:
    kept = [each for each in dict.fromkeys(content) if each in _CONTENT[kind]]
    if "none" in kept and len(kept) > 1:
        raise OperationError("unable to combine 'none' with other content types")
    if not kept and "none" not in _CONTENT[kind]:
        raise OperationError("storage does not support content type 'none'")
    return kept or ["none"]


def _check_options(kind: StorageType, given: Mapping[str, str], *, create: bool = True) -> None:
    for key in given:
        if key not in (*_REQUIRED[kind], *_OPTIONAL[kind]):
            raise OperationError(f"unexpected property '{key}'")
    for key in _REQUIRED[kind] if create else ():
        if key not in given:
            raise OperationError(f"missing value for required option '{key}'")


def _check_deleted(kind: StorageType, given: Mapping[str, str], dropped: list[str]) -> None:
    for key in dropped:
        if key not in (*_REQUIRED[kind], *_OPTIONAL[kind]):
            raise OperationError(f"no such option '{key}'")
        if key in _REQUIRED[kind]:
            raise OperationError(f"unable to delete required option '{key}'")
        if key in given:
            raise OperationError(f"cannot set and delete property '{key}' at the same time!")


def _activate(call: Call, storage: Storage) -> None:
    """Raise if the place of a new storage does not exist on the simulated node."""
    others = list(call.cluster.storages.values())
    settings = storage.settings
    if storage.disabled:
        return
    if storage.type.is_share:
        return
    if storage.type is StorageType.LVM:
        if storage.vgname != _EMPTY_GROUP:
            raise OperationError(f"no such volume group '{storage.vgname}'")
        return
    if storage.type is StorageType.LVM_THIN:
        wanted = (storage.vgname, storage.thinpool)
        of_others = {(each.vgname, each.thinpool) for each in others if each.type is StorageType.LVM_THIN}
        if wanted in of_others:
            raise OperationError(f"pvebox cannot define two storages on the thin pool '{'/'.join(wanted)}'")
        if wanted != _INSTALLED_POOL:
            raise OperationError(f"no such logical volume {'/'.join(wanted)}")
        return
    mountpoint = settings.get("is_mountpoint", "no")
    if mountpoint.lower() not in ("0", "no", "off", "false"):
        expected = storage.path if mountpoint.lower() in ("1", "yes", "on", "true") else mountpoint
        raise OperationError(
            f"unable to activate storage '{storage.id}' - "
            f"directory is expected to be a mount point but is not mounted: '{expected}'"
        )
    created = settings.get("create-base-path", settings.get("mkdir", "1")) != "0"
    if not created and storage.path not in {each.path for each in others if each.type is StorageType.DIR}:
        raise OperationError(
            f"unable to activate storage '{storage.id}' - directory '{storage.path}' does not exist or is unreachable"
        )
