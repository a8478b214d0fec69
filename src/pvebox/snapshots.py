"""Take, delete and roll back snapshots of containers. They include volumes of other containers."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Final

from .cluster import Cluster
from .config import CtConfig, Options
from .disks import in_use
from .errors import OperationError
from .lifecycle import has_bind_mounts, start
from .mountpoint import MountType, add_unused, mount_points
from .runtime import VolumeBusyError, VolumeRef
from .storage import snapshot_name

# These options describe the container itself and are not part of a snapshot.
_NOT_COPIED: Final = ("lock", "description", "snaptime", "template")


def _volumes(cluster: Cluster, node: str, section: Options) -> list[VolumeRef]:
    found = []
    for point in mount_points(section):
        if point.type is MountType.VOLUME:
            found.append(cluster.locate(point.volume, node)[1])
    return found


def _copied(section: Options) -> Options:
    return {key: value for key, value in section.items() if key not in _NOT_COPIED and not key.startswith("unused")}


def _snapshot_of(ref: VolumeRef, name: str) -> VolumeRef:
    return VolumeRef(ref.node, ref.storage, snapshot_name(ref.name, name))


def take(cluster: Cluster, vmid: int, node: str, name: str, description: str) -> None:
    """Take a snapshot of a container and of all volumes it mounts, also those of other containers."""
    config = cluster.configs.load(vmid, node)
    if config.flag("template"):
        raise OperationError("you can't take a snapshot if it's a template")
    config.require_unlocked()
    if name in config.snapshots:
        raise OperationError(f"snapshot name '{name}' already used")
    if has_bind_mounts(config):
        raise OperationError("snapshot feature is not available")
    volumes = _volumes(cluster, node, config.options)
    for ref in volumes:
        lv = _snapshot_of(ref, name).name
        if cluster.runtime.volumes.get(_snapshot_of(ref, name)) is not None:
            raise OperationError(
                f'lvcreate snapshot \'pve/{lv}\' error:   Logical Volume "{lv}" already exists in volume group "pve"'
            )
        if cluster.runtime.volumes.get(ref) is None:
            raise OperationError(
                f"lvcreate snapshot 'pve/{lv}' error:   Failed to find logical volume \"pve/{ref.name}\""
            )
    config.options["lock"] = "snapshot"
    cluster.configs.save(vmid, node, config)
    made: list[VolumeRef] = []
    try:
        with cluster.runtime.containers.frozen(vmid) if cluster.runtime.containers.running(vmid) else nullcontext():
            for ref in volumes:
                cluster.runtime.volumes.copy(ref, _snapshot_of(ref, name))
                made.append(_snapshot_of(ref, name))
    except Exception:  # NodeCrashError is a BaseException: a crashed node does not clean up
        for ref in made:
            cluster.runtime.volumes.remove(ref)
        _unlock(cluster, vmid, node)
        raise
    section = _copied(config.options)
    section["snaptime"] = int(time.time())
    if description:
        section["description"] = description.rstrip("\n") + "\n"
    config.snapshots[name] = section
    config.options["parent"] = name
    del config.options["lock"]
    cluster.configs.save(vmid, node, config)


def _unlock(cluster: Cluster, vmid: int, node: str) -> None:
    config = cluster.configs.load(vmid, node)
    config.options.pop("lock", None)
    cluster.configs.save(vmid, node, config)


def _existing(config: CtConfig, name: str) -> Options:
    section = config.snapshots.get(name)
    if section is None:
        raise OperationError(f"snapshot '{name}' does not exist")
    return section


def delete(cluster: Cluster, vmid: int, node: str, name: str, *, force: bool) -> None:
    """Delete a snapshot. Volumes that only this snapshot named are added as unused volumes."""
    config = cluster.configs.load(vmid, node)
    config.require_unlocked()
    section = _existing(config, name)
    config.options["lock"] = "snapshot-delete"
    cluster.configs.save(vmid, node, config)
    for ref in _volumes(cluster, node, section):
        cluster.runtime.volumes.remove(_snapshot_of(ref, name))
    parent = section.get("parent")
    for other in (config.options, *config.snapshots.values()):
        if other.get("parent") == name:
            other.pop("parent")
            if parent is not None:
                other["parent"] = parent
    del config.snapshots[name]
    for point in mount_points(section):
        if point.type is MountType.VOLUME and not in_use(config, point.volume):
            add_unused(config.options, point.volume)
    config.options.pop("lock", None)
    cluster.configs.save(vmid, node, config)


def roll_back(cluster: Cluster, vmid: int, node: str, name: str, *, start_after: bool) -> None:
    """Roll a container back to a snapshot. If a volume is in use, the container stays locked and half rolled back."""
    config = cluster.configs.load(vmid, node)
    if config.flag("template"):
        raise OperationError("you can't rollback if vm is a template")
    section = _existing(config, name)
    config.require_unlocked()
    if cluster.runtime.containers.running(vmid):
        cluster.runtime.containers.stop(vmid)
        config = cluster.configs.load(vmid, node)
        section = _existing(config, name)
    config.options["lock"] = "rollback"
    cluster.configs.save(vmid, node, config)
    for ref in _volumes(cluster, node, section):
        _roll_back_volume(cluster, ref, name)
    kept = {key: value for key, value in config.options.items() if key.startswith("unused") or key == "description"}
    before = config.options
    config.options = {**kept, **_copied(section), "parent": name}
    wanted = {point.volume for point in mount_points(config.options)}
    for point in mount_points(before):
        if point.type is MountType.VOLUME and point.volume not in wanted:
            add_unused(config.options, point.volume)
    config.pending.clear()
    config.pending_delete.clear()
    cluster.configs.save(vmid, node, config)
    if start_after:
        start(cluster, vmid, node, config)


def _roll_back_volume(cluster: Cluster, ref: VolumeRef, name: str) -> None:
    snapshot = _snapshot_of(ref, name)
    if cluster.runtime.volumes.get(snapshot) is None:
        raise OperationError(f"no such logical volume pve/{snapshot.name}")
    try:
        cluster.runtime.volumes.remove(ref)
    except VolumeBusyError:
        storage = cluster.storage(ref.storage)
        lv = f"{storage.vgname}/{ref.name}"
        raise OperationError(f"lvremove '{lv}' error:   Logical volume {lv} contains a filesystem in use.") from None
    cluster.runtime.volumes.copy(snapshot, ref)
