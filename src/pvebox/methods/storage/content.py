"""API methods: read, change and delete one volume of a storage."""

from __future__ import annotations

from typing import Any, Final

from pvebox.api.errors import OperationError, ParameterError
from pvebox.api.routes import Call, anybody, api
from pvebox.api.schema import FLAG, Prop
from pvebox.backups import files as backupfiles
from pvebox.cluster.tasks import Task
from pvebox.guests.disks import check_volume_access, free
from pvebox.guests.storage import Storage, StorageType, parse_volume_id
from pvebox.runtime.contract import VolumeRef

_VOLUME: Final = "/nodes/{node}/storage/{storage}/content/{volume*}"


def _place(call: Call) -> tuple[Storage, VolumeRef, str]:
    volume, store = str(call.params["volume"]), str(call.params["storage"])
    if ":" not in volume:
        volume = f"{store}:{volume}"
    parts = parse_volume_id(volume)
    if parts is None:
        raise ParameterError({"volume": f"unable to parse volume ID '{volume}'\n"})
    if parts[0] != store:
        raise ParameterError({"volume": f"storage ID mismatch ({parts[0]} != {store})\n"})
    return *call.cluster.locate(volume, call.node), volume


@api.method("GET", _VOLUME, anybody)
def volume_info(call: Call) -> dict[str, Any]:
    """Return the path, size and format of a volume, and the notes and protection of a backup."""
    cluster, node = call.cluster, call.node
    storage, ref, volid = _place(call)
    check_volume_access(call, -1, volid, None)
    content = storage.parse(ref.name).content
    if content == "images":
        volume = cluster.runtime.volumes.get(ref)
        if volume is None:
            raise OperationError(_no_size(storage, ref))
        return {"path": storage.device(ref.name), "size": volume.size, "used": 0, "format": "raw"}
    found = cluster.runtime.files(node, storage.id).get(ref.name)
    if found is None:
        raise OperationError(_no_size(storage, ref))
    if not found[0]:
        raise OperationError(f"volume '{volid}' has size zero")
    # qemu-img reads the file as a disk image: its size is in whole sectors, its use in whole blocks.
    facts: dict[str, Any] = {
        "path": storage.device(ref.name),
        "size": -(-found[0] // 512) * 512,
        "used": -(-found[0] // 4096) * 4096,
        "format": "raw",
    }
    if content == "backup":
        facts["notes"] = backupfiles.notes_of(cluster, node, storage, ref.name)
        facts["protected"] = int(backupfiles.is_protected(cluster, node, storage, ref.name))
    return facts


@api.method("PUT", _VOLUME, anybody, {"notes": Prop(optional=True), "protected": FLAG})
def change_volume(call: Call) -> None:
    """Change the notes or the protection of a backup."""
    cluster, node = call.cluster, call.node
    storage, ref, volid = _place(call)
    check_volume_access(call, -1, volid, None)
    notes, protected = call.text("notes"), call.text("protected")
    is_file = storage.parse(ref.name).content == "backup"
    if notes is not None:
        if not is_file:
            raise OperationError(_no_notes(storage))
        backupfiles.set_notes(cluster, node, storage, ref.name, notes)
    if protected is not None:
        if not is_file:
            raise OperationError(_no_protection(storage))
        limit = backupfiles.protection_limit(cluster, storage, call.user)
        backupfiles.set_protected(cluster, node, storage, ref.name, protected=protected == "1", limit=limit)


def _no_notes(storage: Storage) -> str:
    if not storage.type.is_lvm:
        return "only backups can have notes"
    plugin = f"PVE::Storage::{'LVM' if storage.type is StorageType.LVM else 'LvmThin'}Plugin"
    return f"volume notes are not supported for {plugin} at /usr/share/perl5/PVE/Storage/Plugin.pm line 1251."


def _no_protection(storage: Storage) -> str:
    if not storage.type.is_lvm:
        return "only backups support attribute 'protected'"
    return f"attribute 'protected' is not supported for storage type '{storage.type}'"


def _no_size(storage: Storage, ref: VolumeRef) -> str:
    device = storage.device(ref.name)
    if storage.type.is_lvm:
        lv = f"{storage.vgname}/{ref.name}"
        return f"can't get size of '{device}':   Failed to find logical volume \"{lv}\""
    return f"volume_size_info on '{storage.id}:{ref.name}' failed - no format"


@api.method(
    "DELETE",
    _VOLUME,
    anybody,
    {"delay": Prop(type="integer", minimum=1, maximum=30, optional=True)},
)
def delete_volume(call: Call) -> str | None:
    """Delete a volume in a task. As in Proxmox, without a check whether a config still uses it."""
    cluster = call.cluster
    storage, ref, volid = _place(call)
    name = storage.parse(ref.name)
    if name.content == "backup" and name.owner is not None:
        call.require(f"/storage/{storage.id}", "Datastore.AllocateSpace")
        call.require(f"/vms/{name.owner}", "VM.Backup")
    else:
        call.require(f"/storage/{storage.id}", "Datastore.Allocate")

    def work(task: Task) -> None:
        if name.content == "images":
            free(cluster, ref, task.say)
        else:
            _delete_file(call, storage, ref.name, task)
        task.say(f"Removed volume '{volid}'")
        if name.content == "backup":
            backupfiles.remove_beside(cluster, call.node, storage, ref.name)

    owner = f"{name.owner}@{storage.id}" if name.owner is not None else storage.id
    upid = cluster.tasks.start(call.node, "imgdel", owner, call.user, work)
    return _awaited(call, upid, int(call.params.get("delay", 0)))


def _delete_file(call: Call, storage: Storage, name: str, task: Task) -> None:
    runtime = call.cluster.runtime
    if backupfiles.is_protected(call.cluster, call.node, storage, name):
        raise OperationError(f"cannot remove protected volume '{name}' on '{storage.id}'")
    if name not in runtime.files(call.node, storage.id):
        task.say(f"disk image '{storage.device(name)}' does not exist")
    runtime.remove_file(call.node, storage.id, name)


def _awaited(call: Call, upid: str, seconds: int) -> str | None:
    """Wait for a task. Return nothing if it succeeds in time, or its UPID if it takes longer; raise if it fails."""
    task = call.cluster.tasks.find(upid)
    if task is None or not seconds or not task.ended.wait(seconds):
        return upid
    status = task.exitstatus or ""
    if status != "OK" and not status.startswith("WARNINGS"):
        raise OperationError(status)
    return None
