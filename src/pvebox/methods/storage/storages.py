"""API methods: list storages and their content; allocate volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pvebox.api import formats
from pvebox.api.errors import ApiError, OperationError
from pvebox.api.routes import Call, anybody, api, having
from pvebox.api.schema import FLAG, Prop
from pvebox.backups import files as backupfiles
from pvebox.backups.files import Backup
from pvebox.guests.disks import allocate, check_volume_access, silent
from pvebox.guests.storage import Storage, parse_image_file, require_lvm_name

_STORAGE = "/nodes/{node}/storage/{storage}"
_CONTENT = ("images", "rootdir", "vztmpl", "backup", "iso", "snippets", "import")
_READ = ("Datastore.Audit", "Datastore.AllocateSpace")


def _status(call: Call, storage: Storage) -> dict[str, Any]:
    total, used = call.cluster.capacity(storage)
    return {
        "type": str(storage.type),
        "content": ",".join(storage.content),
        "enabled": int(not storage.disabled),
        "active": int(not storage.disabled),
        "shared": int(storage.shared),
        "total": total,
        "used": used,
        "avail": total - used,
    }


@api.method(
    "GET",
    "/nodes/{node}/storage",
    anybody,
    {
        "storage": Prop(optional=True, format=formats.storage_id),
        "content": Prop(optional=True, format=lambda text: None),
        "enabled": FLAG,
        "target": Prop(optional=True, format=formats.node),
        "format": FLAG,
    },
)
def listing(call: Call) -> list[dict[str, Any]]:
    """Return the storages of a node that the caller may see."""
    wanted = set(formats.split_list(call.text("content") or ""))
    found = []
    for storage in call.cluster.storages_of(call.node):
        if call.text("storage") not in (None, storage.id) or (wanted and not wanted & {*storage.content}):
            continue
        if not call.allows(f"/storage/{storage.id}", *_READ, any_of=True):
            continue
        status = _status(call, storage)
        fraction = status["used"] / status["total"]
        found.append({"storage": storage.id, "used_fraction": fraction, **status})
    return found


@api.method("GET", f"{_STORAGE}/status", having("/storage/{storage}", *_READ, any_of=True))
def status(call: Call) -> dict[str, Any]:
    """Return the status and usage figures of a storage."""
    return _status(call, call.cluster.storage(str(call.params["storage"])))


def _volumes(call: Call, storage: Storage) -> Iterator[dict[str, Any]]:
    cluster, node = call.cluster, call.node
    for volume in cluster.runtime.volumes.on(node, storage.id):
        try:
            name = storage.parse(volume.ref.name)
        except OperationError:
            continue
        # Proxmox reports a volume whose owner does not exist as the image of a VM.
        owner_exists = name.owner is not None and cluster.configs.exists(name.owner)
        shown: dict[str, Any] = {
            "volid": f"{storage.id}:{volume.ref.name}",
            "vmid": name.owner,
            "format": "raw",
            "size": volume.size,
            "content": "rootdir" if owner_exists else "images",
        }
        if storage.type.is_lvm:
            yield {**shown, "ctime": str(volume.ctime)}
        else:
            yield {**shown, "ctime": volume.ctime, "used": volume.size, "parent": None}
    for file, (size, when) in cluster.runtime.files(node, storage.id).items():
        content, _, plain = file.partition("/")
        if content in storage.content and content != "backup":
            yield {
                "volid": f"{storage.id}:{file}",
                "format": _file_format(content, plain),
                "size": size,
                "ctime": when,
                "content": content,
            }
    if "backup" in storage.content:
        for backup in backupfiles.listing(cluster, node, storage):
            yield _backup_entry(backup)


def _file_format(content: str, name: str) -> str:
    if content == "vztmpl":
        return {"gz": "tgz", "xz": "txz", "zst": "tzst"}.get(name.rsplit(".", 1)[-1], "tar")
    return "snippet" if content == "snippets" else content


def _backup_entry(backup: Backup) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "volid": backup.volid,
        "format": backup.format,
        "size": backup.size,
        "ctime": backup.ctime,
        "content": "backup",
        "subtype": backup.kind,
    }
    if backup.vmid is not None:
        entry["vmid"] = backup.vmid
    if backup.notes is not None:
        entry["notes"] = backup.notes
    if backup.protected:
        entry["protected"] = 1
    return entry


@api.method(
    "GET",
    f"{_STORAGE}/content",
    having("/storage/{storage}", *_READ, any_of=True),
    {
        "content": Prop(optional=True, enum=_CONTENT),
        "vmid": Prop(type="integer", optional=True, format=formats.vmid),
    },
)
def content(call: Call) -> list[dict[str, Any]]:
    """Return the volumes of a storage that the caller may see."""
    storage = call.cluster.storage(str(call.params["storage"]))
    wanted, owner = call.text("content"), call.text("vmid")
    found = []
    for entry in _volumes(call, storage):
        if wanted is not None and entry["content"] != wanted:
            continue
        # Proxmox lists snippets for every owner.
        if owner is not None and entry["content"] != "snippets" and str(entry.get("vmid")) != owner:
            continue
        try:
            check_volume_access(call, -1, str(entry["volid"]), None)
        except ApiError:
            continue
        found.append(entry)
    return sorted(found, key=lambda entry: str(entry["volid"]))


@api.method(
    "POST",
    f"{_STORAGE}/content",
    having("/storage/{storage}", "Datastore.AllocateSpace"),
    {
        "vmid": Prop(type="integer", format=formats.vmid),
        "filename": Prop(),
        "size": Prop(pattern=r"\d+[MG]?"),
        "format": Prop(optional=True, enum=("raw", "qcow2", "subvol", "vmdk"), requires="size"),
    },
)
def create_volume(call: Call) -> str:
    """Allocate a volume without a filesystem."""
    cluster, node = call.cluster, call.node
    storage = cluster.storage(str(call.params["storage"]))
    vmid, name = int(call.params["vmid"]), str(call.params["filename"])
    text = str(call.params["size"])
    # A size without a unit is in KiB.
    size = (formats.parse_size(text) or 0) * (1 if text[-1] in "MG" else 1024)
    if storage.type.is_lvm:
        if call.text("format") not in (None, "raw"):
            raise OperationError(
                f"unsupported format '{call.text('format')}' at /usr/share/perl5/PVE/Storage/LvmThinPlugin.pm line 102."
            )
        if not name.startswith(f"vm-{vmid}-"):
            raise OperationError(f"illegal name '{name}' - should be 'vm-{vmid}-*'")
        require_lvm_name(storage.vgname, name)
        ref = cluster.place(storage, node, name)
        if cluster.runtime.volumes.get(ref) is not None:
            lv = f"{storage.vgname}/{name}"
            raise OperationError(
                f'lvcreate \'{lv}\' error:   Logical Volume "{name}" already exists in volume group "{storage.vgname}"'
            )
    else:
        suffix = parse_image_file(name)[1]
        if call.text("format") not in (None, suffix):
            raise OperationError(f"unable to parse volume filename '{name}'")
        ref = cluster.place(storage, node, f"{vmid}/{name}")
        if cluster.runtime.volumes.get(ref) is not None:
            raise OperationError(f"disk image '{storage.device(ref.name)}' already exists")
    allocate(cluster, storage, ref, size, silent)
    return f"{storage.id}:{ref.name}"
