"""API methods: clone a container, convert a container to a template."""

from __future__ import annotations

import time
from typing import Final

from pvebox.access.rights import require_bridge
from pvebox.api import formats
from pvebox.api.errors import ApiError, OperationError, PrivilegeError
from pvebox.api.routes import CONTAINER, VMID, Call, api, having
from pvebox.api.schema import FLAG, Prop
from pvebox.cluster.tasks import Task
from pvebox.guests.clones import CloneOrder, clone, cloned_options, convert, require_convertible
from pvebox.guests.config import CtConfig, Options
from pvebox.guests.features import volume_has_feature
from pvebox.guests.mountpoint import MountPoint, MountType, mount_points
from pvebox.guests.storage import split_volume_id

# Proxmox answers before the conversion is visible, so clients must poll for the result.
_TEMPLATE_HEAD_START: Final = 0.3


def _may_clone(call: Call) -> None:
    call.require(f"/vms/{call.params['vmid']}", "VM.Clone")
    if call.allows(f"/vms/{call.params.get('newid', '')}", "VM.Allocate"):
        return
    pool = call.text("pool")
    if pool is None or not call.allows(f"/pool/{pool}", "VM.Allocate"):
        raise PrivilegeError


@api.method(
    "POST",
    f"{CONTAINER}/clone",
    _may_clone,
    {
        "newid": VMID,
        "hostname": Prop(optional=True, format=formats.dns_name),
        "description": Prop(optional=True),
        "pool": Prop(optional=True, format=formats.poolid),
        "snapname": Prop(optional=True, format=formats.configid, max_length=40),
        "storage": Prop(optional=True, format=formats.storage_id),
        "full": FLAG,
        "target": Prop(optional=True, format=formats.node),
        "bwlimit": Prop(type="number", optional=True, minimum=0),
    },
)
def clone_container(call: Call) -> str:
    """Check a clone call, lock source and clone, and start the task."""
    cluster, vmid, node, target = call.cluster, call.vmid, call.node, int(call.params["newid"])
    pool = call.text("pool")
    if pool is not None and pool not in cluster.access.pools:
        raise PrivilegeError(f"pool '{pool}' does not exist")
    storage, target_node = call.text("storage"), _other_node(call)
    if storage is not None:
        _require_storage(call, storage, target_node)
    cluster.members.require_quorum()
    source = _lock_source(call)
    try:
        cluster.configs.reserve(target, node, CtConfig(options={"lock": "create"}))
    except ApiError:
        cluster.configs.unlock(vmid, node)
        raise
    running = cluster.runtime.containers.running(vmid)
    try:
        section, points, full = _plan(call, source, running=running)
        options = cloned_options(section, call.text("hostname"), call.text("description"))
        if target_node is not None:
            _require_all_shared(call, points, target_node)
    except ApiError:
        cluster.configs.unlock(vmid, node)
        cluster.configs.remove(target)
        raise
    cluster.configs.save(target, node, CtConfig(options={**options, "lock": "create"}))
    order = CloneOrder(
        source=vmid,
        target=target,
        node=node,
        points=tuple(points),
        full=full,
        running=running,
        snapshot=call.text("snapname"),
        storage=storage,
        pool=pool,
        target_node=target_node,
    )
    return cluster.tasks.start(node, "vzclone", str(vmid), call.user, lambda task: clone(cluster, order, task))


def _other_node(call: Call) -> str | None:
    """Return the target node of the clone, or None if it stays on the source's node."""
    target = call.text("target")
    if target in (None, call.node, "localhost"):
        return None
    if target not in call.cluster.nodes:
        raise OperationError(f"no such cluster node '{target}'")
    return target


def _require_storage(call: Call, storage_id: str, target_node: str | None) -> None:
    storage = call.cluster.storage(storage_id)
    call.cluster.require_available(storage, call.node)
    if target_node is not None:
        call.cluster.require_available(storage, target_node)
        if not storage.shared:
            raise OperationError(f"can't clone to non-shared storage '{storage_id}'")


def _require_all_shared(call: Call, points: list[MountPoint], target_node: str) -> None:
    """Raise unless the other node will see all volumes of the clone."""
    given = call.text("storage")
    for point in points:
        storage = call.cluster.storage(given or point.volume.partition(":")[0])
        if not storage.shared:
            raise OperationError(f"can't clone CT to node '{target_node}' (CT uses local storage)")


def _lock_source(call: Call) -> CtConfig:
    with call.cluster.configs.changing(call.vmid, call.node) as config:
        config.require_unlocked()
        config.options["lock"] = "disk"
    del config.options["lock"]
    return config


def _plan(call: Call, source: CtConfig, *, running: bool) -> tuple[Options, list[MountPoint], bool]:
    """Return the config section to clone, its mount points, and whether it is a full clone."""
    snapshot = call.text("snapname")
    full = call.flag("full") if call.text("full") is not None else not source.flag("template")
    if call.text("storage") is not None and not full:
        raise OperationError("parameter 'storage' not allowed for linked clones")
    section = source.section(snapshot)
    points = {point.key: point for point in mount_points(section)}
    # Proxmox checks the options in alphabetical order.
    for key in sorted(section):
        if key in points:
            _require_clonable(call, points[key], full=full, running=running)
        elif key.startswith("net") and not call.is_root:
            require_bridge(call, str(section[key]))
    return section, list(points.values()), full


def _require_clonable(call: Call, point: MountPoint, *, full: bool, running: bool) -> None:
    snapshot = call.text("snapname")
    if point.type is not MountType.VOLUME:
        raise OperationError(f"unable to clone mountpoint '{point.key}' (type {point.type})")
    own, _ = split_volume_id(point.volume)
    call.require(f"/storage/{call.text('storage') or own}", "Datastore.AllocateSpace")
    if full and running and snapshot is None:
        raise OperationError("Full clone of a running container is only possible from a snapshot")
    if not full and not volume_has_feature(call.cluster, "clone", point.volume, snapshot):
        raise OperationError(f"Linked clone feature for '{point.volume}' is not available")


@api.method(
    "POST",
    f"{CONTAINER}/template",
    having("/vms/{vmid}", "VM.Allocate"),
    {"experimental": FLAG},
)
def make_template(call: Call) -> None:
    """Convert a container to a template in a task. As in Proxmox, the answer does not contain the UPID."""
    cluster, vmid, node = call.cluster, call.vmid, call.node
    with cluster.configs.lock(vmid):
        config = cluster.configs.load(vmid, node)
        config.require_unlocked()
        require_convertible(cluster, vmid, config)

    def work(task: Task) -> None:
        time.sleep(_TEMPLATE_HEAD_START)
        with cluster.configs.lock(vmid):
            convert(cluster, vmid, node)

    cluster.tasks.start(node, "vztemplate", str(vmid), call.user, work)
