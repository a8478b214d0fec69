"""API methods: prune the backups of a storage, and restore single files from a backup."""

from __future__ import annotations

from typing import Any, Final

from pvebox.api import formats
from pvebox.api.errors import ParameterError
from pvebox.api.routes import Call, anybody, api, having
from pvebox.api.schema import Prop
from pvebox.backups import prune
from pvebox.cluster.tasks import Task
from pvebox.guests.disks import check_volume_access
from pvebox.guests.storage import parse_volume_id

_STORAGE: Final = "/nodes/{node}/storage/{storage}"
_PARAMETERS: Final = {
    "prune-backups": prune.RETENTION,
    "type": Prop(optional=True, enum=("qemu", "lxc")),
    "vmid": Prop(type="integer", optional=True, format=formats.vmid),
}
_FILE: Final = {"volume": Prop(), "filepath": Prop()}


def _vmid(call: Call) -> int | None:
    return call.vmid if "vmid" in call.params else None


@api.method(
    "GET",
    f"{_STORAGE}/prunebackups",
    having("/storage/{storage}", "Datastore.Audit", "Datastore.AllocateSpace", any_of=True),
    _PARAMETERS,
)
def preview(call: Call) -> list[dict[str, Any]]:
    """Return the backups of a storage and whether pruning would keep or remove them."""
    storage = call.cluster.storage(str(call.params["storage"]))
    keep = prune.retention_for(storage, call.text("prune-backups"))
    entries = []
    for entry in prune.marked(call.cluster, call.node, storage, keep, _vmid(call), call.text("type")):
        backup = entry.backup
        shown: dict[str, Any] = {"volid": backup.volid, "ctime": backup.ctime, "type": backup.kind, "mark": entry.mark}
        entries.append(shown if backup.vmid is None else {**shown, "vmid": backup.vmid})
    return entries


@api.method("DELETE", f"{_STORAGE}/prunebackups", anybody, _PARAMETERS)
def prune_backups(call: Call) -> str:
    """Prune the backups of a storage, or those of one guest, in a task."""
    cluster, node, storage_id, vmid = call.cluster, call.node, str(call.params["storage"]), _vmid(call)
    if vmid is None:
        call.require(f"/storage/{storage_id}", "Datastore.Allocate")
    else:
        call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")
        call.require(f"/vms/{vmid}", "VM.Backup")
    text, kind = call.text("prune-backups"), call.text("type")

    def work(task: Task) -> None:
        storage = cluster.storage(storage_id)
        prune.prune(cluster, node, storage, prune.retention_for(storage, text), vmid, kind, task.say)

    id_ = storage_id if vmid is None else f"{vmid}@{storage_id}"
    return cluster.start_task(node, "prunebackups", id_, call.user, work)


@api.method("GET", f"{_STORAGE}/file-restore/list", anybody, _FILE)
def list_files(call: Call) -> None:
    """Raise Proxmox's error: only a Proxmox Backup Server can list the files of a backup."""
    _refuse(call)


@api.method("GET", f"{_STORAGE}/file-restore/download", anybody, _FILE)
def download_file(call: Call) -> None:
    """Raise Proxmox's error: only a Proxmox Backup Server can restore single files."""
    _refuse(call)


def _refuse(call: Call) -> None:
    storage_id, volume = str(call.params["storage"]), str(call.params["volume"])
    parts = parse_volume_id(volume)
    if parts is not None and parts[0] != storage_id:
        raise ParameterError({"volume": f"storage ID mismatch ({parts[0]} != {storage_id})."})
    if parts is None:
        volume = f"{storage_id}:{volume if volume.startswith('backup/') else f'backup/{volume}'}"
    call.cluster.storage(storage_id)
    check_volume_access(call, -1, volume, "backup")
    raise ParameterError({"storage": "Only PBS storages supported for file-restore."})
