"""API method: create a container. The checks are in Proxmox's order."""

from __future__ import annotations

import re
from typing import Any

from .. import formats
from ..backups import RestoreOptions, restore
from ..disks import check_volume_access
from ..errors import OperationError, ParameterError, PrivilegeError
from ..lifecycle import CreateOrder, create, initial_config
from ..mountpoint import MountType, is_bare_number, mount_points
from ..options import SETTABLE
from ..rights import require_config_rights
from ..routes import STORAGE, Call, anybody, api
from ..runtime import Archive
from ..schema import Prop
from ..storage import parse_volume_id
from ..tasks import Task

_FLAG = Prop(type="boolean", optional=True)
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
    "force": _FLAG,
    "restore": _FLAG,
    "unique": Prop(type="boolean", optional=True, requires="restore"),
    "pool": Prop(optional=True, format=formats.poolid),
    "ignore-unpack-errors": _FLAG,
    "ssh-public-keys": Prop(optional=True),
    "bwlimit": Prop(type="number", optional=True, minimum=0),
    "start": _FLAG,
    "ha-managed": _FLAG,
}
_OWN = frozenset(PROPERTIES) - frozenset(SETTABLE) | {"node"}


@api.method("POST", "/nodes/{node}/lxc", anybody, PROPERTIES)
def create_container(call: Call) -> str:
    """Check a create call and start the task."""
    cluster, vmid, node = call.cluster, call.vmid, call.node
    cluster.members.require_quorum()
    unprivileged = str(call.params.get("unprivileged", "1")) == "1"
    restoring = call.flag("restore")
    if not unprivileged and not restoring:
        call.require("/", "Sys.Modify")
    if call.flag("ha-managed"):
        call.require("/", "Sys.Console")
    replaces = None
    overwrites = restoring and call.flag("force") and cluster.configs.node_of(vmid) == node
    if overwrites:
        if cluster.runtime.containers.running(vmid):
            raise OperationError("can't overwrite running container")
        replaces = cluster.configs.load(vmid, node)
        replaces.require_unprotected(f"unable to restore CT {vmid}")
        replaces.require_unlocked()
    elif cluster.configs.exists(vmid):
        raise OperationError(f"CT {vmid} already exists on node '{cluster.configs.node_of(vmid)}'")
    keys = call.text("ssh-public-keys")
    if keys is not None:
        _require_valid_keys(keys)
    pool = call.text("pool")
    if pool is not None and pool not in cluster.access.pools:
        raise PrivilegeError(f"pool '{pool}' does not exist")
    allocates = call.allows(f"/vms/{vmid}", "VM.Allocate") or (
        pool is not None and call.allows(f"/pool/{pool}", "VM.Allocate")
    )
    restores_own = overwrites and call.allows(f"/vms/{vmid}", "VM.Backup")
    if not allocates and not restores_own:
        raise PrivilegeError
    options = {key: value for key, value in call.params.items() if key not in _OWN and key != "unprivileged"}
    require_config_rights(call, vmid, pool, {}, options, [], unprivileged=unprivileged)
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
        unprivileged=unprivileged,
        archive=archive,
        archive_missing=missing,
        password=call.text("password"),
        ssh_keys=keys,
        pool=pool,
        start=call.flag("start"),
        replaces=replaces,
    )
    if replaces is None:
        cluster.configs.reserve(vmid, node, initial_config(order))
    else:
        cluster.configs.save(vmid, node, initial_config(order))
    recovery = RestoreOptions(
        storage=call.text("storage") or "local",
        given_mounts="rootfs" in options,
        is_root=call.is_root,
        unique=call.flag("unique"),
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

    return cluster.start_task(node, "vzrestore" if restoring else "vzcreate", str(vmid), call.user, work)


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
    for point in mount_points(mounts):
        if point.type is not MountType.VOLUME:
            continue
        parts = parse_volume_id(point.volume)
        if parts is None:
            raise OperationError(f"unable to parse volume ID '{point.volume}'")
        _require_usable(call, parts[0])
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
    return Archive(volid, path), None if exists else f"volume '{volid}' does not exist"
