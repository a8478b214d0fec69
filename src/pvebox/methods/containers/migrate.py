"""API methods: the preconditions of a migration, and the migration of a container to another node."""

from __future__ import annotations

from typing import Any, Final

from pvebox.api import formats
from pvebox.api.errors import OperationError, ParameterError
from pvebox.api.routes import NODE, Call, api, having
from pvebox.api.schema import FLAG, FormatError, Prop
from pvebox.cluster.tasks import Task
from pvebox.guests.migrations import MigrateOrder, Migration, StorageMap

_MIGRATE: Final = "/nodes/{node}/lxc/{vmid}/migrate"
_MAY: Final = having("/vms/{vmid}", "VM.Migrate")


@api.method("GET", _MIGRATE, _MAY, {"target": Prop(optional=True, format=formats.node)})
def preconditions(call: Call) -> dict[str, Any]:
    """Return the nodes that a container can be migrated to. As in Proxmox, its volumes are not checked."""
    cluster, vmid = call.cluster, call.vmid
    cluster.members.require_quorum()
    cluster.configs.load(vmid, call.node).require_unlocked()
    found: dict[str, Any] = {
        "running": int(cluster.runtime.containers.running(vmid)),
        "allowed-nodes": [node for node in cluster.nodes if node != call.node],
        "not-allowed-nodes": {},
    }
    if cluster.ha.manages(vmid):
        found["dependent-ha-resources"] = []
    return found


def _check_pair(text: str) -> None:
    parts = text.split(":")
    if text != "1" and len(parts) > 2:
        raise FormatError(f"invalid storage pair '{text}'\n")
    for part in parts if text != "1" else ():
        formats.storage_id(part)


@api.method(
    "POST",
    _MIGRATE,
    _MAY,
    {
        "target": NODE,
        "target-storage": Prop(optional=True, format=formats.list_of(_check_pair)),
        "online": FLAG,
        "restart": FLAG,
        "timeout": Prop(type="integer", optional=True),
        "bwlimit": Prop(type="number", optional=True, minimum=0),
    },
)
def migrate(call: Call) -> str:
    """Migrate a container in a task. The HA manager does it for a container under HA."""
    cluster, vmid, node, target = call.cluster, call.vmid, call.node, str(call.params["target"])
    if target == node:
        raise ParameterError({"target": "target is local node."})
    cluster.members.require_quorum()
    if target not in cluster.nodes:
        raise OperationError(f"no such cluster node '{target}'")
    cluster.configs.load(vmid, node)
    online, restart = call.flag("online"), call.flag("restart")
    if cluster.runtime.containers.running(vmid) and not online and not restart:
        raise OperationError("can't migrate running container without --online or --restart")
    storages = _storage_map(call, target)
    if cluster.ha.manages(vmid):
        said = f"Requesting HA migration for CT {vmid} to node {target}"
        return cluster.tasks.start(node, "hamigrate", str(vmid), call.user, lambda task: task.say(said))
    timeout = int(call.params.get("timeout", 180))
    order = MigrateOrder(vmid, node, target, storages, online=online, restart=restart, timeout=timeout)

    def work(task: Task) -> None:
        with cluster.configs.migration_lock(vmid, task.say), cluster.configs.lock(vmid, task.say):
            Migration(cluster, order, task).run()

    return cluster.tasks.start(node, "vzmigrate", str(vmid), call.user, work)


def _storage_map(call: Call, target: str) -> StorageMap:
    """Return the storages that the caller chose for the target node, after the checks of the caller's rights."""
    entries: dict[str, str] = {}
    default: str | None = None
    identity = False
    listed = formats.split_list(call.text("target-storage") or "")
    for text in listed:
        source, colon, mapped = text.partition(":")
        if text == "1":
            identity = True
        elif not colon:
            default = text
        elif source in entries:
            problem = f"duplicate mapping for source '{source}'\n"
            raise ParameterError({"target-storage": f"failed to parse storage map: {problem}"})
        else:
            entries[source] = mapped
    if listed and not identity:
        call.require(f"/vms/{call.vmid}", "VM.Config.Disk")
    for storage_id in (*entries.values(), *([default] if default is not None else ())):
        storage = call.cluster.storage(storage_id)
        call.cluster.require_available(storage, target)
        call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")
        if "rootdir" not in storage.content:
            raise OperationError(f"storage '{storage_id}' does not support CT rootdirs")
    return StorageMap(entries, default)
