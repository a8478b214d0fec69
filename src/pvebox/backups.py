"""Back containers up into archives and restore containers from them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from . import config as ct
from .cluster import Cluster
from .config import CtConfig
from .errors import ApiError, OperationError
from .lifecycle import CreateOrder, create, start
from .mountpoint import MountType, mount_points
from .network import complete_network
from .runtime import ArchiveOrder, ContainerSpec, Mount, VolumeRef
from .storage import snapshot_name
from .tasks import Task

# These options describe the backed-up container itself and are not restored.
_NOT_RESTORED = ("lock", "parent", "rootfs", "snaptime", "template", "unprivileged")


@dataclass(frozen=True)
class BackupOrder:
    """The parameters of a backup call, after its checks."""

    vmid: int
    node: str
    storage: str
    mode: str
    suffix: str


def back_up(cluster: Cluster, order: BackupOrder, task: Task) -> None:
    """Write a backup of a container to a storage: its root, and the mount points with `backup=1`."""
    vmid, node = order.vmid, order.node
    began = time.time()
    running = cluster.runtime.containers.running(vmid)
    mode = order.mode if running else "stop"
    task.say(f"INFO: Starting Backup of VM {vmid} (lxc)")
    task.say(f"INFO: status = {'running' if running else 'stopped'}")
    with cluster.configs.lock(vmid):
        config = cluster.configs.load(vmid, node)
        config.require_unlocked()
        text = ct.write(CtConfig(options=dict(config.options), raw_lxc=list(config.raw_lxc)))
        config.options["lock"] = "backup"
        cluster.configs.save(vmid, node, config)
    task.say(f"INFO: backup mode: {mode}", f"INFO: CT Name: {config.text('hostname')}")
    copies: list[VolumeRef] = []
    try:
        if running and mode == "stop":
            task.say("INFO: stopping virtual guest")
            cluster.runtime.containers.shutdown(vmid, 60)
        mounts = _included(cluster, node, config, task)
        if running and mode != "stop":
            task.say("INFO: create storage snapshot 'vzdump'")
            with cluster.runtime.containers.frozen(vmid):
                mounts = [_copied(cluster, mount, copies) for mount in mounts]
        stamp = time.strftime("%Y_%m_%d-%H_%M_%S")
        name = f"backup/vzdump-lxc-{vmid}-{stamp}.{order.suffix}"
        shown = cluster.storage(order.storage).device(name)
        task.say(f"INFO: creating vzdump archive '{shown}'")
        target = cluster.runtime.file(node, order.storage, name)
        packed = ArchiveOrder(ContainerSpec(vmid, node, config, mounts), target, shown, text)
        size = cluster.runtime.containers.archive(packed, task, lambda *lines: task.say(*_as_info(lines)))
        cluster.runtime.note_file(node, order.storage, name, size, text)
        task.say(f"INFO: archive file size: {size >> 20}MB")
    finally:
        for copy in copies:
            cluster.runtime.volumes.remove(copy)
        with cluster.configs.lock(vmid):
            fresh = cluster.configs.load(vmid, node)
            fresh.options.pop("lock", None)
            cluster.configs.save(vmid, node, fresh)
            if running and mode == "stop" and not cluster.runtime.containers.running(vmid):
                task.say("INFO: restarting vm")
                start(cluster, vmid, node, fresh)
    took = int(time.time() - began)
    task.say(f"INFO: Finished Backup of VM {vmid} ({took // 3600:02}:{took // 60 % 60:02}:{took % 60:02})")


def _as_info(lines: Iterable[str]) -> list[str]:
    return [f"INFO: {line}" for line in lines]


def _included(cluster: Cluster, node: str, config: CtConfig, task: Task) -> list[Mount]:
    mounts = []
    for point in mount_points(config.options):
        if point.backed_up:
            task.say(f"INFO: including mount point {point.key} ('{point.path}') in backup")
            mounts.append(cluster.mount(point, node))
        else:
            why = "not a volume" if point.type is not MountType.VOLUME else "disabled"
            task.say(f"INFO: excluding volume mount point {point.key} ('{point.path}') from backup ({why})")
    return mounts


def _copied(cluster: Cluster, mount: Mount, copies: list[VolumeRef]) -> Mount:
    if not isinstance(mount.source, VolumeRef):
        return mount
    copy = replace(mount.source, name=snapshot_name(mount.source.name, "vzdump"))
    cluster.runtime.volumes.copy(mount.source, copy)
    copies.append(copy)
    return replace(mount, source=copy)


@dataclass(frozen=True)
class RestoreOptions:
    """The parameters that a restore call has in addition to those of a create call."""

    storage: str
    given_mounts: bool
    is_root: bool
    unique: bool


def restore(cluster: Cluster, order: CreateOrder, recovery: RestoreOptions, task: Task) -> None:
    """Create a container from a backup. Options that the call does not set come from the config in the archive."""
    try:
        complete = _recovered(cluster, order, recovery, task)
    except ApiError as error:
        if order.replaces is None:
            cluster.configs.remove(order.vmid)
        else:
            cluster.configs.save(order.vmid, order.node, order.replaces)
        raise OperationError(f"unable to restore CT {order.vmid} - {error.text}") from None
    create(cluster, complete, task, verb="restore")


def _recovered(cluster: Cluster, order: CreateOrder, recovery: RestoreOptions, task: Task) -> CreateOrder:
    task.say(f"recovering backed-up configuration from '{order.archive.volid}'")
    store, _, name = order.archive.volid.partition(":")
    text = cluster.runtime.archived_config(order.node, store, name)
    if order.archive_missing or text is None:
        raise OperationError(f"volume '{order.archive.volid}' does not exist")
    saved = ct.parse(text)
    mounts = order.mounts if recovery.given_mounts else _new_mounts(saved, recovery)
    options: dict[str, Any] = {}
    for key, value in saved.options.items():
        if key in _NOT_RESTORED or key.startswith(("mp", "unused")):
            continue
        options[key] = value
        if key.startswith("net") and recovery.unique:
            kept = [part for part in str(value).split(",") if not part.startswith("hwaddr=")]
            options[key] = complete_network(",".join(kept))
    merged = {**options, **order.options}
    unprivileged = saved.flag("unprivileged") or order.unprivileged
    return replace(order, mounts=mounts, options=merged, unprivileged=unprivileged)


def _new_mounts(saved: CtConfig, recovery: RestoreOptions) -> dict[str, str]:
    mounts: dict[str, str] = {}
    for point in mount_points(saved.options):
        if point.type is not MountType.VOLUME:
            if point.key == "rootfs":
                raise OperationError(
                    f"restoring rootfs to {point.type} mount is only possible by specifying -rootfs manually!"
                )
            if not recovery.is_root:
                raise OperationError(f"restoring '{point.key}' to {point.type} mount is only possible for root")
            mounts[point.key] = str(point)
            continue
        if point.size is None:
            raise OperationError(f"unable to detect disk size - please specify {point.key} (size)")
        mounts[point.key] = str(point.on(f"{recovery.storage}:{point.size / (1 << 30):g}", None))
    if "rootfs" not in mounts:
        raise OperationError("rootfs configuration could not be recovered, please check and specify manually!")
    return mounts
