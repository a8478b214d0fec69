"""API method: back up containers (vzdump)."""

from __future__ import annotations

from typing import Final

from .. import formats
from ..backups import BackupOrder, back_up
from ..errors import ApiError, OperationError, ParameterError
from ..routes import Call, anybody, api
from ..schema import Prop
from ..tasks import Task

_SUFFIXES: Final = {"0": "tar", "1": "tar.gz", "gzip": "tar.gz", "lzo": "tar.zst", "zstd": "tar.zst"}
_FLAG = Prop(type="boolean", optional=True)
_TEXT = Prop(optional=True)
_NUMBER = Prop(type="integer", optional=True, minimum=0)


@api.method(
    "POST",
    "/nodes/{node}/vzdump",
    anybody,
    {
        "vmid": Prop(optional=True, format=formats.list_of(formats.vmid)),
        "all": _FLAG,
        "exclude": Prop(optional=True, format=formats.list_of(formats.vmid)),
        "storage": Prop(optional=True, format=formats.storage_id),
        "mode": Prop(optional=True, enum=("snapshot", "suspend", "stop")),
        "compress": Prop(optional=True, enum=tuple(_SUFFIXES)),
        "bwlimit": _NUMBER,
        "ionice": Prop(type="integer", optional=True, minimum=0, maximum=8),
        "lockwait": _NUMBER,
        "mailnotification": Prop(optional=True, enum=("always", "failure")),
        "mailto": _TEXT,
        "notes-template": _TEXT,
        "notification-mode": _TEXT,
        "pool": _TEXT,
        "protected": _FLAG,
        "prune-backups": _TEXT,
        "quiet": _FLAG,
        "remove": _FLAG,
        "stop": _FLAG,
        "stopwait": _NUMBER,
        "zstd": _NUMBER,
    },
)
def vzdump(call: Call) -> str:
    """Back up containers in a task."""
    cluster, node = call.cluster, call.node
    storage_id = call.text("storage") or "local"
    call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")
    vmids = [int(vmid) for vmid in formats.split_list(call.text("vmid") or "")]
    if not vmids and not call.flag("all"):
        raise ParameterError({"vmid": "property is missing and it is not optional"})
    if call.flag("all"):
        skipped = {int(vmid) for vmid in formats.split_list(call.text("exclude") or "")}
        vmids = [
            vmid
            for vmid in cluster.configs.vmids(node)
            if vmid not in skipped and call.allows(f"/vms/{vmid}", "VM.Backup")
        ]
    for vmid in vmids:
        call.require(f"/vms/{vmid}", "VM.Backup")
    storage = cluster.storage(storage_id)
    if "backup" not in storage.content:
        raise OperationError(f"can't use storage '{storage_id}' for backups - wrong content type")
    mode = call.text("mode") or "snapshot"
    suffix = _SUFFIXES[call.text("compress") or "zstd"]

    def work(task: Task) -> None:
        listed = " ".join(str(vmid) for vmid in vmids)
        task.say(f"INFO: starting new backup job: vzdump {listed} --storage {storage_id} --mode {mode}")
        failed = False
        for vmid in vmids:
            try:
                back_up(cluster, BackupOrder(vmid, node, storage_id, mode, suffix), task)
            except ApiError as error:
                failed = True
                task.say(f"ERROR: Backup of VM {vmid} failed - {error.text}")
        if failed:
            task.say("INFO: Backup job finished with errors")
            raise OperationError("job errors")
        task.say("INFO: Backup job finished successfully")

    name = str(vmids[0]) if len(vmids) == 1 else ""
    return cluster.start_task(node, "vzdump", name, call.user, work)
