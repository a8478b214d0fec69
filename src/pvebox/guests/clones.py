"""Clone containers, and convert containers to templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pvebox.api.errors import ApiError, OperationError
from pvebox.api.schema import print_property_string
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.tasks import Task
from pvebox.guests.config import CtConfig, Options
from pvebox.guests.disks import copy_volume, free, next_volume
from pvebox.guests.features import volume_has_feature
from pvebox.guests.lifecycle import warn_about_nesting
from pvebox.guests.mountpoint import MountPoint, MountType, mount_points
from pvebox.guests.network import complete_network, new_mac, parse_network
from pvebox.guests.options import NETWORK
from pvebox.guests.storage import snapshot_name
from pvebox.runtime.contract import VolumeBusyError, VolumeRef

# These options describe the source itself and are not cloned.
_NOT_COPIED: Final = ("template", "parent", "snaptime", "lock")


@dataclass(frozen=True)
class CloneOrder:
    """The parameters of a clone call, after its checks."""

    source: int
    target: int
    node: str
    points: tuple[MountPoint, ...]
    full: bool
    running: bool
    snapshot: str | None = None
    storage: str | None = None
    pool: str | None = None
    target_node: str | None = None


def cloned_options(source: Options, hostname: str | None, description: str | None) -> Options:
    """Return the options of a clone without its volumes: the options of the source, with new MAC addresses."""
    options: Options = {}
    for key, value in source.items():
        if key in _NOT_COPIED or key.startswith(("unused", "mp")) or key == "rootfs":
            continue
        if key.startswith("net"):
            parts = parse_network(complete_network(str(value)))
            options[key] = print_property_string({**parts, "hwaddr": new_mac()}, NETWORK)
        else:
            options[key] = value
    if hostname:
        options["hostname"] = hostname
    if description:
        options["description"] = description.rstrip("\n") + "\n"
    return options


def clone(cluster: Cluster, order: CloneOrder, task: Task) -> None:
    """Copy or link a container's volumes into the clone. If that fails, remove the clone."""
    made: list[VolumeRef] = []
    task.say(f"creating a clone of container {order.source} with ID {order.target}")
    if cluster.runtime.containers.running(order.source) != order.running:
        raise OperationError("unexpected state change")
    try:
        for point in order.points:
            ref = _clone_volume(cluster, order, point, task)
            made.append(ref)
            volume = cluster.runtime.volumes.get(ref) if order.full else None
            config = cluster.configs.load(order.target, order.node)
            # A full clone states the true size, a linked clone the size in the source's config.
            size = volume.size if volume is not None else point.size
            config.options[point.key] = str(point.on(f"{ref.storage}:{ref.name}", size))
            cluster.configs.save(order.target, order.node, config)
        config = cluster.configs.load(order.target, order.node)
        found = cluster.runtime.containers.settle_clone(cluster.spec(order.target, order.node, config))
        warn_about_nesting(config, found, task)
    except ApiError as error:
        _undo(cluster, order, made, task)
        raise OperationError(f"clone failed: {error.text}") from None
    except Exception:  # NodeCrashError is a BaseException: a crashed node does not clean up
        _undo(cluster, order, made, task)
        raise
    for vmid in (order.source, order.target):
        cluster.configs.unlock(vmid, order.node)
    if order.target_node is not None:
        cluster.configs.move(order.target, order.target_node)
    if order.pool:
        cluster.access.join_pool(order.target, order.pool)
        cluster.access_changed()


def _undo(cluster: Cluster, order: CloneOrder, made: list[VolumeRef], task: Task) -> None:
    cluster.configs.unlock(order.source, order.node)
    for ref in made:
        free(cluster, ref, task.say)
    cluster.configs.remove(order.target)


def _clone_volume(cluster: Cluster, order: CloneOrder, point: MountPoint, task: Task) -> VolumeRef:
    storage, source = cluster.locate(point.volume, order.node)
    if order.full:
        task.say(f"create full clone of mountpoint {point.key} ({point.volume})")
        kept = cluster.storage(order.storage) if order.storage is not None else storage
        return copy_volume(cluster, order.node, source, kept, order.target, task.say, order.snapshot)
    if order.snapshot is not None:
        source = VolumeRef(source.node, source.storage, snapshot_name(source.name, order.snapshot))
    if cluster.runtime.volumes.get(source) is None:
        raise OperationError(storage.missing(source.name))
    task.say(f"create linked clone of mount point {point.key} ({point.volume})")
    target = next_volume(cluster, storage, order.node, order.target)
    cluster.runtime.volumes.link(source, target)
    return target


def require_convertible(cluster: Cluster, vmid: int, config: CtConfig) -> None:
    """Raise unless the container can be converted to a template."""
    if config.snapshots:
        raise OperationError("unable to create template, because CT contains snapshots")
    if config.flag("template"):
        raise OperationError("you can't convert a template to a template")
    if cluster.runtime.containers.running(vmid):
        raise OperationError("you can't convert a CT to template if the CT is running")


def convert(cluster: Cluster, vmid: int, node: str) -> None:
    """Convert a container to a template. All volumes it mounts become base volumes, even another container's."""
    config = cluster.configs.load(vmid, node)
    volumes = [point for point in mount_points(config.options) if point.type is MountType.VOLUME]
    for point in volumes:
        if not volume_has_feature(cluster, "template", point.volume) and not cluster.parse_volume(point.volume).is_base:
            raise OperationError(f"Template feature is not available for '{point.volume}'")
    for point in volumes:
        storage, ref, _ = cluster.existing(point.volume, node)
        name = storage.base_name(ref.name)
        if name != ref.name:
            try:
                cluster.runtime.volumes.rename(ref, name)
            except VolumeBusyError:
                raise OperationError(f"volume '{point.volume}' is in use") from None
        config.options[point.key] = str(point.on(f"{storage.id}:{name}", point.size))
    config.options["template"] = 1
    cluster.configs.save(vmid, node, config)
