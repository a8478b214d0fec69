"""API method: move a volume to another container (by renaming it) or to another storage (by copying it)."""

from __future__ import annotations

from pvebox.api import formats
from pvebox.api.errors import ApiError, OperationError, ParameterError
from pvebox.api.routes import DIGEST, VMID, Call, api, having
from pvebox.api.schema import FLAG, Prop
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.tasks import Task
from pvebox.guests.change import update
from pvebox.guests.config import CtConfig
from pvebox.guests.disks import copy_volume, free, next_volume
from pvebox.guests.features import volume_has_feature
from pvebox.guests.mountpoint import MountPoint, MountType, add_unused, mount_points, parse
from pvebox.guests.options import MOUNT_KEYS, UNUSED_KEYS
from pvebox.guests.storage import Storage
from pvebox.methods.containers.settings import require_same_digest
from pvebox.runtime.contract import VolumeBusyError

_KEYS = (*MOUNT_KEYS, *UNUSED_KEYS)


@api.method(
    "POST",
    "/nodes/{node}/lxc/{vmid}/move_volume",
    having("/vms/{vmid}", "VM.Config.Disk"),
    {
        "volume": Prop(enum=_KEYS),
        "target-vmid": Prop(type="integer", optional=True, format=VMID.format),
        "target-volume": Prop(optional=True, enum=_KEYS),
        "storage": Prop(optional=True, format=formats.storage_id),
        "delete": FLAG,
        "digest": DIGEST,
        "target-digest": DIGEST,
        "bwlimit": Prop(type="number", optional=True, minimum=0),
    },
)
def move_volume(call: Call) -> str:
    """Move a volume in a task."""
    target, storage = call.text("target-vmid"), call.text("storage")
    if target is not None and storage is not None:
        raise OperationError("either set storage or target-vmid, but not both")
    if target is not None:
        return _reassign(call, int(target))
    if storage is not None:
        return _move_to_storage(call, storage)
    message = "both 'storage' and 'target-vmid' missing, either needs to be set"
    raise ParameterError({"target-vmid": message, "storage": message})


def _reassign(call: Call, target: int) -> str:
    cluster, vmid, node, key = call.cluster, call.vmid, call.node, str(call.params["volume"])
    target_key = call.text("target-volume") or key
    if not call.is_root:
        call.require(f"/vms/{target}", "VM.Config.Disk")
    _, _, point = _checked(call, target, key, target_key)
    storage, _ = cluster.locate(point.volume, node)
    call.require(f"/storage/{storage.id}", "Datastore.AllocateSpace")

    def work(task: Task) -> None:
        with cluster.configs.lock(vmid, task.say), cluster.configs.lock(target, task.say):
            source_config, _, moved = _checked(call, target, key, target_key)
            task.say(f"moving volume '{key}' from container '{vmid}' to '{target}'")
            renamed = _rename(cluster, node, moved, target, task)
            del source_config.options[key]
            task.say(f"removing volume '{key}' from container '{vmid}' config")
            cluster.configs.save(vmid, node, source_config)
            target_config = cluster.configs.load(target, node)
            if target_key.startswith("unused"):
                target_config.options[target_key] = renamed.volume
                cluster.configs.save(target, node, target_config)
            else:
                text = str(MountPoint(target_key, renamed.volume, renamed.path, renamed.attributes))
                errors = update(cluster, target, node, target_config, changes={target_key: text}, delete=[], revert=[])
                for error in errors.values():
                    task.warn(error.rstrip("\n"))
            task.say(f"target container '{target}' updated with '{target_key}'")

    name = f"{vmid}-{key}>{target}-{target_key}"
    return cluster.tasks.start(node, "move_volume", name, call.user, work)


def _rename(cluster: Cluster, node: str, point: MountPoint, target: int, task: Task) -> MountPoint:
    storage, ref = cluster.locate(point.volume, node)
    new = next_volume(cluster, storage, node, target)
    if cluster.runtime.volumes.get(ref) is None:
        raise OperationError(storage.missing(ref.name))
    try:
        cluster.runtime.volumes.rename(ref, new.name)
    except VolumeBusyError:
        raise OperationError(f"volume '{point.volume}' is in use") from None
    task.say(f'  Renamed "{ref.name}" to "{new.name}" in volume group "{storage.vgname}"')
    return MountPoint(point.key, f"{storage.id}:{new.name}", point.path, point.attributes)


def _checked(call: Call, target: int, key: str, target_key: str) -> tuple[CtConfig, CtConfig, MountPoint]:
    """Return both configs and the mount point to move. Raise if it cannot be moved."""
    cluster, vmid, node = call.cluster, call.vmid, call.node
    if "rootfs" in (key, target_key):
        raise OperationError("Cannot move to/from 'rootfs'")
    if key.startswith("unused") and not target_key.startswith("unused"):
        raise OperationError("Moving an unused volume to a used one is not possible")
    for each in (vmid, target):
        if not cluster.configs.exists(each):
            raise OperationError(f"could not find CT {each}")
    target_node = cluster.configs.node_of(target)
    if target_node != node:
        raise OperationError(f"Both containers need to be on the same node ({node} != {target_node})")
    source = cluster.configs.load(vmid, node)
    source.require_unlocked()
    target_config = source if target == vmid else cluster.configs.load(target, node)
    target_config.require_unlocked()
    if source.flag("template") or target_config.flag("template"):
        raise OperationError("Can't move volumes from or to template CT")
    for owner, config, digest in ((vmid, source, "digest"), (target, target_config, "target-digest")):
        try:
            require_same_digest(config, call.text(digest))
        except OperationError as error:
            raise OperationError(f"Container {owner}: {error.text}") from None
    value = source.text(key)
    if value is None:
        raise OperationError(f"volume '{key}' for container '{vmid}' does not exist")
    if target_key in target_config.options:
        raise OperationError(f"Target volume key '{target_key}' is already in use for container '{target}'")
    point = MountPoint(key, value, "", {}) if key.startswith("unused") else parse(key, value)
    if _in_snapshots(source, point.volume):
        raise OperationError("Cannot move volume used by a snapshot to another container")
    if not volume_has_feature(cluster, "rename", point.volume):
        raise OperationError("Storage does not support moving of this disk to another container")
    if point.type is not MountType.VOLUME:
        raise OperationError("Cannot move a bindmount or device mount to another container")
    if cluster.runtime.containers.running(vmid) and not key.startswith("unused"):
        raise OperationError("Cannot move in-use volume while the source CT is running - detach or shutdown first")
    return source, target_config, point


def _in_snapshots(config: CtConfig, volid: str) -> bool:
    return any(point.volume == volid for each in config.snapshots.values() for point in mount_points(each))


def _move_to_storage(call: Call, storage_id: str) -> str:
    cluster, vmid, node, key = call.cluster, call.vmid, call.node, str(call.params["volume"])
    call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")
    delete = call.flag("delete")
    with cluster.configs.changing(vmid, node) as config:
        config.require_unlocked()
        if cluster.runtime.containers.running(vmid):
            raise OperationError("cannot move volumes of a running container")
        if key.startswith("unused"):
            raise OperationError(f"cannot move volume '{key}', only configured volumes can be moved to another storage")
        point = parse(key, config.text(key) or "")
        if delete and _in_snapshots(config, point.volume):
            raise OperationError("you can't move a volume with snapshots and delete the source")
        require_same_digest(config, call.text("digest"))
        config.options["lock"] = "disk"

    def work(task: Task) -> None:
        cluster.tasks.note(task, f"move volume CT {vmid}: move --volume {key} --storage {storage_id}")
        try:
            _copy_over(cluster, vmid, node, cluster.storage(storage_id), point, task, delete=delete)
        finally:
            cluster.configs.unlock(vmid, node)

    return cluster.tasks.start(node, "move_volume", str(vmid), call.user, work)


def _copy_over(
    cluster: Cluster, vmid: int, node: str, storage: Storage, point: MountPoint, task: Task, *, delete: bool
) -> None:
    _, source = cluster.locate(point.volume, node)
    target = copy_volume(cluster, node, source, storage, vmid, task.say)
    name = target.name
    if cluster.configs.load(vmid, node).flag("template"):
        name = storage.base_name(name)
        cluster.runtime.volumes.rename(target, name)
    copied = cluster.runtime.volumes.get(cluster.place(storage, node, name))
    with cluster.configs.changing(vmid, node) as config:
        config.options[point.key] = str(point.on(f"{storage.id}:{name}", copied.size if copied else None))
        if not delete:
            add_unused(config.options, point.volume)
    if delete:
        try:
            # As in Proxmox, the owner of the volume is not checked.
            free(cluster, source, task.say)
        except ApiError as error:
            task.say(error.text)
            with cluster.configs.changing(vmid, node) as config:
                add_unused(config.options, point.volume)
