"""API method: create a container. The checks are in Proxmox's order."""

from __future__ import annotations

import re
from typing import Any

from pvebox.access.rights import require_config_rights
from pvebox.api import formats
from pvebox.api.errors import OperationError, ParameterError, PrivilegeError
from pvebox.api.routes import STORAGE, Call, anybody, api
from pvebox.api.schema import FLAG, Prop
from pvebox.backups.restore import RestoreOptions, lock_replaced, restore
from pvebox.cluster.tasks import Task
from pvebox.guests.config import CtConfig
from pvebox.guests.disks import check_volume_access
from pvebox.guests.lifecycle import CreateOrder, create
from pvebox.guests.mountpoint import is_bare_number, volumes_of
from pvebox.guests.options import SETTABLE
from pvebox.guests.storage import split_volume_id
from pvebox.runtime.contract import Archive

_KEY_TYPES = re.compile(
    r"(ssh-(rsa|dss|ed25519)|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r"\s+[A-Za-z0-9+/]+={0,2}(\s.*)?"
)

PROPERTIES = {
    **SETTABLE,
    "vmid": Prop(type="integer", format=formats.vmid),
    "ostemplate": Prop(max_length=255),
    "password": Prop(optional=True, min_length=5),
    "storage": Prop(optional=True, format=STORAGE.format),
    "force": FLAG,
    "restore": FLAG,
    "unique": Prop(type="boolean", optional=True, requires="restore"),
    "pool": Prop(optional=True, format=formats.poolid),
    "ignore-unpack-errors": FLAG,
    "ssh-public-keys": Prop(optional=True),
    "bwlimit": Prop(type="number", optional=True, minimum=0),
    "start": FLAG,
    "ha-managed": FLAG,
}
_OWN = frozenset(PROPERTIES) - frozenset(SETTABLE) | {"node"}


@api.method("POST", "/nodes/{node}/lxc", anybody, PROPERTIES)
def create_container(call: Call) -> str:
    """Check a create or restore call and start the task."""
    cluster, vmid, node = call.cluster, call.vmid, call.node
    cluster.members.require_quorum()
    restoring = call.flag("restore")
    # A restored container is unprivileged if the backup says so.
    unprivileged = call.flag("unprivileged") if "unprivileged" in call.params else None if restoring else True
    if unprivileged is False and not restoring:
        call.require("/", "Sys.Modify")
    if call.flag("ha-managed"):
        call.require("/", "Sys.Console")
    replaces = None
    if restoring and call.flag("force") and cluster.configs.node_of(vmid) == node:
        if cluster.runtime.containers.running(vmid):
            raise OperationError("can't overwrite running container")
        replaces = cluster.configs.load(vmid, node)
        replaces.require_unprotected(f"unable to restore CT {vmid}")
    elif cluster.configs.exists(vmid):
        raise OperationError(f"CT {vmid} already exists on node '{cluster.configs.node_of(vmid)}'")
    keys = call.text("ssh-public-keys")
    if keys is not None:
        _require_valid_keys(keys)
    pool = call.text("pool")
    if pool is not None and pool not in cluster.access.pools:
        raise PrivilegeError(f"pool '{pool}' does not exist")
    _require_allocation(call, pool, replaces, unprivileged)
    options = {key: value for key, value in call.params.items() if key not in _OWN and key != "unprivileged"}
    require_config_rights(call, vmid, pool, {}, options, [], unprivileged=bool(unprivileged))
    template = str(call.params["ostemplate"])
    check_volume_access(call, vmid, template, "backup" if restoring else "vztmpl")
    mounts = _wanted_mounts(call, options)
    plain = {
        key: value
        for key, value in options.items()
        if key not in mounts and not key.startswith("unused") and key != "rootfs"
    }
    archive, missing = _archive(call, template)
    order = CreateOrder(
        vmid=vmid,
        node=node,
        user=call.user,
        mounts=mounts,
        options=plain,
        unprivileged=bool(unprivileged),
        archive=archive,
        archive_missing=missing,
        password=call.text("password"),
        ssh_keys=keys,
        pool=pool,
        start=call.flag("start"),
    )
    if replaces is None:
        cluster.configs.reserve(vmid, node, CtConfig(options={"lock": "create"}))
    else:
        lock_replaced(cluster, vmid, node)
    recovery = RestoreOptions(
        storage=call.text("storage") or "local",
        given_mounts="rootfs" in options,
        unprivileged=unprivileged,
        unique=call.flag("unique"),
        replaces=replaces,
    )

    def work(task: Task) -> None:
        with cluster.configs.lock(vmid, task.say):
            if restoring:
                restore(cluster, order, recovery, task)
            else:
                create(cluster, order, task)
        if call.flag("ha-managed"):
            task.say("Add as HA resource")
            cluster.ha.put_resource(f"ct:{vmid}", {"type": "ct", "state": "started" if order.start else "stopped"})

    return cluster.tasks.start(node, "vzrestore" if restoring else "vzcreate", str(vmid), call.user, work)


def _require_allocation(call: Call, pool: str | None, replaces: CtConfig | None, unprivileged: bool | None) -> None:
    """Raise unless the caller may create the container, or overwrite it with a backup."""
    vmid = call.vmid
    if call.allows(f"/vms/{vmid}", "VM.Allocate"):
        return
    if pool is not None and call.allows(f"/pool/{pool}", "VM.Allocate"):
        return
    if replaces is None or not call.allows(f"/vms/{vmid}", "VM.Backup"):
        raise PrivilegeError
    if replaces.flag("unprivileged") and unprivileged is False:
        call.require("/", "Sys.Modify")


def _require_valid_keys(text: str) -> None:
    lines = [line.strip() for line in text.split("\n")]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not all(_KEY_TYPES.search(line) for line in keys):
        raise OperationError("SSH public key validation error")


def _wanted_mounts(call: Call, options: dict[str, Any]) -> dict[str, str]:
    default = call.text("storage") or "local"
    mounts: dict[str, str] = {}
    for key, value in options.items():
        if key == "rootfs" or re.fullmatch(r"mp\d+", key):
            text = str(value)
            mounts[key] = f"{default}:{text}" if is_bare_number(text) else text
    if mounts and "rootfs" not in mounts:
        raise OperationError("mount points configured, but 'rootfs' not set - aborting")
    if not mounts:
        _require_usable(call, default)
        return {"rootfs": f"{default}:4"}
    for volid in volumes_of(mounts):
        _require_usable(call, split_volume_id(volid)[0])
    return mounts


def _require_usable(call: Call, storage_id: str) -> None:
    storage = call.cluster.storage(storage_id)
    if "rootdir" not in storage.content:
        raise ParameterError({"storage": f"storage '{storage_id}' does not support container directories"})
    call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")


def _archive(call: Call, volid: str) -> tuple[Archive, str | None]:
    cluster, node = call.cluster, call.node
    storage, ref = cluster.locate(volid, node)
    exists = ref.name in cluster.runtime.files(node, storage.id)
    path = cluster.runtime.file(node, storage.id, ref.name)
    archive = Archive(volid, path, lenient=call.flag("ignore-unpack-errors"))
    return archive, None if exists else f"volume '{volid}' does not exist"
