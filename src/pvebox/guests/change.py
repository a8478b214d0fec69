"""Change a container's config: apply a change at once, or keep it pending until the container stops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pvebox.api.errors import ApiError, OperationError
from pvebox.api.formats import split_list
from pvebox.cluster.cluster import Cluster
from pvebox.guests.config import CtConfig, Value, typed
from pvebox.guests.disks import (
    LOOP_DEVICE,
    create_disks,
    destroy_volumes,
    free_if_owned,
    in_use,
    is_refused,
    silent,
    with_true_size,
)
from pvebox.guests.mountpoint import MountType, add_unused, new_disk, parse
from pvebox.guests.network import complete_network
from pvebox.guests.storage import parse_volume_id

# Options that change in the config of a running container without a change to the container itself.
_AT_ONCE: Final = frozenset(
    {"cores", "description", "hookscript", "hostname", "lock", "onboot", "protection", "startup", "tags"}
)
_LIMITS: Final = frozenset({"cpulimit", "cpuunits", "memory", "swap"})
_REQUIRED: Final = ("memory", "rootfs", "ostype")


class _StaysPendingError(Exception):
    """The change cannot be applied to a running container and stays pending."""


def normalised(key: str, value: str) -> Value:
    """Return a value as Proxmox stores it: tags sorted and unique, lists separated by blanks."""
    if key == "tags":
        return ";".join(sorted({tag.lower() for tag in split_list(value)}))
    if key in ("nameserver", "searchdomain"):
        return " ".join(split_list(value))
    return typed(key, value)


def update(
    cluster: Cluster,
    vmid: int,
    node: str,
    config: CtConfig,
    *,
    changes: Mapping[str, Any],
    delete: Sequence[str],
    revert: Sequence[str],
) -> dict[str, str]:
    """Apply changes to a config and save it. If a change fails, save nothing and return the errors by option."""
    for key in revert:
        config.pending.pop(key, None)
        _unqueue(config, key)
    touched = _queue_deletions(config, vmid, delete) | _queue_changes(cluster, config, vmid, changes)
    if cluster.runtime.containers.running(vmid):
        errors = _hotplug(cluster, vmid, node, config, touched)
    else:
        errors = apply_pending(cluster, vmid, node, config, touched)
    # Proxmox writes nothing if one of the changes failed.
    if not errors:
        cluster.configs.save(vmid, node, config)
    return errors


def apply_pending(
    cluster: Cluster, vmid: int, node: str, config: CtConfig, only: set[str] | None = None
) -> dict[str, str]:
    """Apply pending changes to a stopped container and return the errors by option."""
    errors: dict[str, str] = {}
    for key in sorted(config.pending_delete):
        if only is not None and key not in only:
            continue
        try:
            _delete(cluster, vmid, node, config, key)
        except ApiError as error:
            errors[key] = f"unable to apply pending change {key} : {error.message}"
    for key in sorted(config.pending):
        if only is not None and key not in only:
            continue
        try:
            if re.fullmatch(r"mp\d+", key):
                _apply_mount(cluster, vmid, node, config, key)
            elif re.fullmatch(r"net\d+", key):
                config.pending[key] = complete_network(str(config.pending[key]))
        except ApiError as error:
            errors[key] = f"unable to apply pending change {key} : {error.message}"
        else:
            config.options[key] = config.pending.pop(key)
    return errors


def _queue_deletions(config: CtConfig, vmid: int, delete: Sequence[str]) -> set[str]:
    touched = set()
    for key in delete:
        if key not in config.options and key not in config.pending:
            continue
        touched.add(key)
        if key in _REQUIRED:
            raise OperationError(f"unable to delete required option '{key}'")
        if re.fullmatch(r"(unused|mp)\d+", key):
            config.require_unprotected(f"can't remove CT {vmid} drive '{key}'")
        if key == "unprivileged":
            raise OperationError("unable to delete read-only option: 'unprivileged'")
        config.pending.pop(key, None)
        if key in config.options and key not in config.pending_delete:
            config.pending_delete.append(key)
    return touched


def _queue_changes(cluster: Cluster, config: CtConfig, vmid: int, changes: Mapping[str, Any]) -> set[str]:
    for key in sorted(changes):
        value = str(changes[key])
        if key == "rootfs" or re.fullmatch(r"mp\d+", key):
            config.require_unprotected(f"can't update CT {vmid} drive '{key}'")
            point = parse(key, value)
            parts = parse_volume_id(point.volume) if point.type is MountType.VOLUME else None
            if parts is not None:
                cluster.require_content(cluster.storage(parts[0]))
        if key == "unprivileged":
            raise OperationError("unable to modify read-only option: 'unprivileged'")
        config.pending[key] = normalised(key, value)
        _unqueue(config, key)
    for key in list(config.pending):
        if key in changes and config.pending[key] == config.options.get(key):
            del config.pending[key]
    return set(changes)


def _unqueue(config: CtConfig, key: str) -> None:
    if key in config.pending_delete:
        config.pending_delete.remove(key)


def _delete(cluster: Cluster, vmid: int, node: str, config: CtConfig, key: str) -> None:
    value = config.text(key)
    if value is not None and re.fullmatch(r"mp\d+", key):
        point = parse(key, value)
        if point.type is MountType.VOLUME:
            add_unused(config.options, point.volume)
    elif value is not None and key.startswith("unused") and not in_use(config, value):
        free_if_owned(cluster, vmid, node, value, silent)
    config.options.pop(key, None)
    _unqueue(config, key)


def _apply_mount(cluster: Cluster, vmid: int, node: str, config: CtConfig, key: str) -> None:
    wanted = str(config.pending[key])
    point = parse(key, wanted)
    running = cluster.runtime.containers.running(vmid)
    old = config.text(key)
    if point.type is MountType.VOLUME and new_disk(point.volume):
        texts, made = create_disks(cluster, vmid, node, {key: wanted}, silent)
        if running:
            try:
                _plug(cluster, vmid, node, key, texts[key])
            except ApiError:
                destroy_volumes(cluster, made, silent)
                raise
        config.pending[key] = texts[key]
    else:
        if running and old is not None:
            raise _StaysPendingError
        sized = with_true_size(cluster, point, node)
        if running:
            _plug(cluster, vmid, node, key, str(sized))
        config.pending[key] = str(sized)
    if old is not None:
        before = parse(key, old)
        if before.type is MountType.VOLUME:
            add_unused(config.options, before.volume)


def _plug(cluster: Cluster, vmid: int, node: str, key: str, text: str) -> None:
    point = parse(key, text)
    if point.type is MountType.VOLUME:
        _, ref, _ = cluster.existing(point.volume, node)
        if is_refused(cluster, node, ref, read_only=point.read_only):
            option = "-o ro " if point.read_only else ""
            target = f"/var/lib/lxc/.pve-staged-mounts/{key}"
            raise OperationError(f"command 'mount {option}{LOOP_DEVICE} {target}' failed: exit code 32")
    cluster.runtime.containers.mount_live(vmid, cluster.mount(point, node))


def _hotplug(cluster: Cluster, vmid: int, node: str, config: CtConfig, touched: set[str]) -> dict[str, str]:
    errors: dict[str, str] = {}
    unplugs = [(key, _unplug) for key in sorted(config.pending_delete)]
    for key, apply in (*unplugs, *((key, _hotplug_change) for key in sorted(config.pending))):
        if key not in touched:
            continue
        try:
            apply(cluster, vmid, node, config, key)
        except _StaysPendingError:
            continue
        except ApiError as error:
            errors[key] = f"unable to hotplug {key}: {error.message}"
    limits = {key: config.options[key] for key in (*_LIMITS, "cores") if key in config.options}
    if touched & {*_LIMITS, "cores"}:
        cluster.runtime.containers.limit_live(vmid, limits)
    return errors


def _unplug(cluster: Cluster, vmid: int, node: str, config: CtConfig, key: str) -> None:
    if key in _AT_ONCE or key in _LIMITS or re.fullmatch(r"(net|unused)\d+", key):
        _delete(cluster, vmid, node, config, key)
    else:
        raise _StaysPendingError


def _hotplug_change(cluster: Cluster, vmid: int, node: str, config: CtConfig, key: str) -> None:
    if re.fullmatch(r"mp\d+", key):
        if key in config.options:
            raise _StaysPendingError
        _apply_mount(cluster, vmid, node, config, key)
    elif re.fullmatch(r"net\d+", key):
        config.pending[key] = complete_network(str(config.pending[key]))
    elif key not in _AT_ONCE and key not in _LIMITS:
        raise _StaysPendingError
    config.options[key] = config.pending.pop(key)
