"""Restore containers from backups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pvebox.access.rights import require_bridge
from pvebox.api.errors import AbortedError, ApiError, OperationError, SandboxError
from pvebox.api.routes import Call
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.tasks import Task
from pvebox.guests import config as ct
from pvebox.guests.clones import convert
from pvebox.guests.config import CtConfig
from pvebox.guests.disks import create_disks, destroy_volumes
from pvebox.guests.lifecycle import CreateOrder, configured, finish, free_all, message_of, set_defaults, unpack
from pvebox.guests.mountpoint import MountPoint, MountType, mount_points
from pvebox.guests.network import complete_network
from pvebox.runtime.contract import VolumeRef

# These options describe the backed-up container itself and are not restored.
_NOT_RESTORED: Final = ("lock", "parent", "rootfs", "snaptime", "template", "unprivileged", "mp", "unused")
_RULE: Final = "-" * 32


@dataclass(frozen=True)
class RestoreOptions:
    """The parameters of a restore call that a create call does not have."""

    # The storage of the volumes for which the call names none.
    storage: str
    # Whether the call names the volumes. Otherwise they are as in the backup.
    given_mounts: bool
    unprivileged: bool | None
    unique: bool
    # The container that is overwritten.
    replaces: CtConfig | None = None


@dataclass(frozen=True)
class _Recovered:
    """The config in a backup, and the mounts of the restored container."""

    saved: CtConfig
    mounts: Mapping[str, str]
    # Host paths, which are mounted only after the restore.
    host_mounts: Mapping[str, str]
    unprivileged: bool


def lock_replaced(cluster: Cluster, vmid: int, node: str) -> None:
    """Lock a container that will be overwritten. Raise if it is locked already."""
    with cluster.configs.changing(vmid, node) as config:
        try:
            config.require_unlocked()
        except OperationError as error:
            raise OperationError(f"unable to restore CT {vmid} - {error.text}") from None
        config.options["lock"] = "create"


def restore(cluster: Cluster, order: CreateOrder, options: RestoreOptions, task: Task) -> None:
    """Create a container from a backup, or overwrite one. Options that the call does not set are as in the backup.

    An error before the first new volume leaves an overwritten container as it was. A later error destroys it.
    """
    vmid, node = order.vmid, order.node
    made: list[VolumeRef] = []
    changed = options.replaces is None
    try:
        recovered = _recover(cluster, order, options, task)
        changed = True
        config = configured(replace(order, unprivileged=recovered.unprivileged))
        texts, made = create_disks(cluster, vmid, node, recovered.mounts, task.say)
        config.options.update(texts)
        if options.replaces is not None:
            free_all(cluster, vmid, node, options.replaces, task)
            cluster.configs.save(vmid, node, CtConfig(options={"lock": "create"}))
        unpack(cluster, order, config, task, restores=True)
        task.say("merging backed-up and given configuration..")
        _merge(cluster, order, options, recovered, config, task)
        set_defaults(config, vmid)
        config.options.update(recovered.host_mounts)
        cluster.configs.save(vmid, node, config)
        if recovered.saved.flag("template"):
            task.say("Convert restored container to template...")
            convert(cluster, vmid, node)
    except (ApiError, AbortedError, SandboxError) as error:
        text = message_of(error, vmid)
        _undo(cluster, order, made, task, changed=changed)
        raise OperationError(f"unable to restore CT {vmid} - {text}") from None
    except Exception:  # NodeCrashError is a BaseException: a crashed node does not clean up
        _undo(cluster, order, made, task, changed=changed)
        raise
    finish(cluster, order)


def _undo(cluster: Cluster, order: CreateOrder, made: list[VolumeRef], task: Task, *, changed: bool) -> None:
    destroy_volumes(cluster, made, task.say)
    if changed:
        cluster.configs.remove(order.vmid)
    else:
        cluster.configs.unlock(order.vmid, order.node)


def _recover(cluster: Cluster, order: CreateOrder, options: RestoreOptions, task: Task) -> _Recovered:
    if cluster.runtime.containers.running(order.vmid):
        raise OperationError("can't overwrite running container")
    task.say(f"recovering backed-up configuration from '{order.archive.volid}'")
    saved = _saved_config(cluster, order)
    caller = Call(cluster, order.user, {})
    for key in sorted(saved.options):
        if key.startswith("net") and key not in order.options:
            require_bridge(caller, str(saved.options[key]))
    unprivileged = saved.flag("unprivileged") if options.unprivileged is None else options.unprivileged
    was_unprivileged = options.replaces is None or options.replaces.flag("unprivileged")
    if was_unprivileged and not unprivileged:
        caller.require("/", "Sys.Modify")
    if options.given_mounts:
        return _Recovered(saved, order.mounts, {}, unprivileged)
    mounts, host_mounts = _saved_mounts(saved, options.storage, caller, task)
    return _Recovered(saved, mounts, host_mounts, unprivileged)


def _saved_config(cluster: Cluster, order: CreateOrder) -> CtConfig:
    if order.archive_missing:
        raise OperationError(order.archive_missing)
    store, _, name = order.archive.volid.partition(":")
    text = cluster.runtime.archived_config(order.node, store, name)
    if text is None:
        raise OperationError("ERROR: archive contains no configuration file")
    return ct.parse(text)


def _saved_mounts(saved: CtConfig, storage: str, caller: Call, task: Task) -> tuple[dict[str, str], dict[str, str]]:
    """Return the mounts of a saved config: new volumes of the saved sizes, and host paths."""
    if "rootfs" not in saved.options:
        raise OperationError("rootfs configuration could not be recovered, please check and specify manually!")
    mounts: dict[str, str] = {}
    host_mounts: dict[str, str] = {}
    for point in mount_points(saved.options):
        if point.type is not MountType.VOLUME:
            _require_restorable(point, caller, task)
            host_mounts[point.key] = str(point)
        elif point.size is None:
            raise OperationError(f"unable to detect disk size - please specify {point.key} (size)")
        else:
            mounts[point.key] = str(point.on(f"{storage}:{point.size / (1 << 30):.15g}", None))
    return mounts, host_mounts


def _require_restorable(point: MountPoint, caller: Call, task: Task) -> None:
    if point.key == "rootfs":
        raise OperationError(f"restoring rootfs to {point.type} mount is only possible by specifying -rootfs manually!")
    if not caller.is_root:
        raise OperationError(f"restoring '{point.key}' to {point.type} mount is only possible for root")
    if point.attributes.get("backup") == "1":
        task.say(
            "WARNING - unsupported configuration!",
            f"backup was enabled for {point.type} mount point {point.key} ('{point.path}')",
            "mount point configuration will be restored after archive extraction!",
            "contained files will be restored to wrong directory!",
        )


def _merge(
    cluster: Cluster,
    order: CreateOrder,
    options: RestoreOptions,
    recovered: _Recovered,
    config: CtConfig,
    task: Task,
) -> None:
    """Add the saved options that the call does not set."""
    caller, saved = Call(cluster, order.user, {}), recovered.saved
    if saved.raw_lxc:
        if caller.is_root:
            config.raw_lxc = list(saved.raw_lxc)
        else:
            task.warn("skipping custom lxc options, restore manually as root:")
            task.say(_RULE, *(f"{key}: {value}" for key, value in saved.raw_lxc), _RULE)
    for key, value in saved.options.items():
        if key in _NOT_RESTORED or key.rstrip("0123456789") in _NOT_RESTORED:
            continue
        if key == "features" and saved.flag("unprivileged") and not config.flag("unprivileged") and not caller.is_root:
            task.say("changing from unprivileged to privileged, skipping features")
        elif key.startswith("net") and options.unique:
            kept = [part for part in str(value).split(",") if not part.startswith("hwaddr=")]
            config.options[key] = complete_network(",".join(kept))
        else:
            config.options.setdefault(key, value)
