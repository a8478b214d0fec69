"""Create, start, stop and destroy containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pvebox.access.accounts import ROOT
from pvebox.api.errors import AbortedError, ApiError, OperationError, SandboxError
from pvebox.api.schema import parse_property_string
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.tasks import Task
from pvebox.guests.change import apply_pending, normalised
from pvebox.guests.config import CtConfig, Options
from pvebox.guests.disks import (
    Log,
    create_disks,
    destroy_volumes,
    every_volume,
    free,
    free_if_owned,
    is_refused,
    owned_volumes,
    refused_mount,
    silent,
)
from pvebox.guests.mountpoint import mount_points, volumes_of
from pvebox.guests.network import complete_network, parse_network
from pvebox.guests.options import FEATURES
from pvebox.runtime.contract import Archive, NotMountableError, Unpacked, VolumeRef


@dataclass(frozen=True)
class CreateOrder:
    """The parameters of a create call, after its checks."""

    vmid: int
    node: str
    user: str
    mounts: Mapping[str, str]
    options: Mapping[str, Any]
    unprivileged: bool
    archive: Archive
    archive_missing: str | None = None
    password: str | None = None
    ssh_keys: str | None = None
    pool: str | None = None
    start: bool = False


def create(cluster: Cluster, order: CreateOrder, task: Task) -> None:
    """Create a container from a template archive. If that fails, remove its volumes and its config."""
    vmid, node = order.vmid, order.node
    made: list[VolumeRef] = []
    try:
        config = configured(order)
        texts, made = create_disks(cluster, vmid, node, order.mounts, task.say)
        config.options.update(texts)
        spec = cluster.spec(vmid, node, config)
        unpacked = unpack(cluster, order, config, task)
        config.options.setdefault("arch", unpacked.arch)
        config.options.setdefault("ostype", unpacked.ostype)
        task.say(f"Detected container architecture: {unpacked.arch}")
        set_defaults(config, vmid)
        cluster.runtime.containers.prepare(spec, order.password, order.ssh_keys, task.say)
        warn_about_nesting(config, unpacked, task)
        cluster.configs.save(vmid, node, config)
    except (ApiError, AbortedError, SandboxError) as error:
        text = message_of(error, vmid)
        destroy_volumes(cluster, made, task.say)
        cluster.configs.remove(vmid)
        raise OperationError(f"unable to create CT {vmid} - {text}") from None
    except Exception:  # NodeCrashError is a BaseException: a crashed node does not clean up
        destroy_volumes(cluster, made, task.say)
        cluster.configs.remove(vmid)
        raise
    finish(cluster, order)


def finish(cluster: Cluster, order: CreateOrder) -> None:
    """Add a new container to its pool, and start it if the call asks for it."""
    if order.pool:
        cluster.access.join_pool(order.vmid, order.pool)
        cluster.access_changed()
    if order.start:
        # The start is a separate task: the create succeeds even if the start fails.
        begin_start(cluster, order.vmid, order.node, order.user)


def set_defaults(config: CtConfig, vmid: int) -> None:
    """Set the options that every container has."""
    config.options.setdefault("hostname", f"CT{vmid}")
    config.options.setdefault("memory", 512)
    config.options.setdefault("swap", 512)


def unpack(cluster: Cluster, order: CreateOrder, config: CtConfig, task: Task, *, restores: bool = False) -> Unpacked:
    """Unpack the archive of an order into the volumes of a config."""
    _require_volumes(cluster, order.node, config)
    if order.archive_missing:
        task.say(order.archive_missing)
        raise OperationError(order.archive_missing)
    store, _, name = order.archive.volid.partition(":")
    if restores:
        task.say(f"restoring '{order.archive.volid}' now..")
    task.say(f"extracting archive '{cluster.storage(store).device(name)}'")
    return _populate(cluster, order, config, task)


def message_of(error: ApiError | AbortedError | SandboxError, vmid: int) -> str:
    """Return the text of an error that ended a creation."""
    match error:
        case ApiError():
            return error.printed
        case SandboxError():
            return error.message
    # Proxmox's error for an interrupted unpacking quotes the tar command line.
    command = (
        "lxc-usernsexec -m u:0:100000:65536 -m g:0:100000:65536 -- tar xpf - --zstd --totals"
        " --one-file-system -p --sparse --numeric-owner --acls --xattrs '--xattrs-include=user.*'"
        " '--xattrs-include=security.capability' '--warning=no-file-ignored' '--warning=no-xattr-write'"
        f" -C /var/lib/lxc/{vmid}/rootfs --skip-old-files --anchored --exclude './dev/*'"
    )
    return f"command '{command}' failed: received interrupt"


def configured(order: CreateOrder) -> CtConfig:
    """Return a config with the options of an order."""
    options: Options = {}
    if order.unprivileged:
        options["unprivileged"] = 1
    for key, value in order.options.items():
        text = str(value)
        options[key] = complete_network(text) if key.startswith("net") else normalised(key, text)
    return CtConfig(options=options)


def _populate(cluster: Cluster, order: CreateOrder, config: CtConfig, task: Task) -> Unpacked:
    spec = cluster.spec(order.vmid, order.node, config)
    for mount in spec.mounts:
        # All mounts are writable while the archive is unpacked.
        if isinstance(mount.source, VolumeRef) and is_refused(cluster, order.node, mount.source, read_only=False):
            raise _mount_error(order.vmid, config, mount.key)
    try:
        return cluster.runtime.containers.populate(spec, order.archive, task)
    except NotMountableError as error:
        raise _mount_error(order.vmid, config, str(error)) from None


def _mount_error(vmid: int, config: CtConfig, key: str) -> OperationError:
    point = next(point for point in mount_points(config.options) if point.key == key)
    target = f"/var/lib/lxc/{vmid}/rootfs/{point.path}"
    return OperationError(f"command 'mount /dev/dm-0 {target}' failed: exit code 32")


def _require_volumes(cluster: Cluster, node: str, config: CtConfig) -> None:
    for volid in volumes_of(config.options):
        cluster.existing(volid, node)


def warn_about_nesting(config: CtConfig, unpacked: Unpacked, task: Task) -> None:
    """Warn as Proxmox does if the container's systemd needs the nesting feature and does not have it."""
    features = parse_property_string(config.text("features") or "", FEATURES)
    if unpacked.systemd is not None and unpacked.systemd > 241 and features.get("nesting") != "1":
        task.warn(f"Systemd {unpacked.systemd} detected. You may need to enable nesting.")


def begin_start(cluster: Cluster, vmid: int, node: str, user: str, *, skip_lock: bool = False) -> str:
    """Start a container in a task and return the UPID."""

    def work(task: Task) -> None:
        with cluster.configs.lock(vmid, task.say):
            config = cluster.configs.load(vmid, node)
            if config.flag("template"):
                raise OperationError("you can't start a CT if it's a template")
            if config.text("lock") != "mounted" and not skip_lock:
                config.require_unlocked()
            if config.flag("unprivileged") and any(
                point.attributes.get("quota") == "1" for point in mount_points(config.options)
            ):
                raise OperationError("Quotas are not supported by unprivileged containers.")
            start(cluster, vmid, node, config, task.say)

    return cluster.tasks.start(node, "vzstart", str(vmid), user, work)


def start_on_boot(cluster: Cluster) -> None:
    """Start the containers with `onboot` set, each in its own task, as a booting node does."""
    for vmid in cluster.configs.vmids():
        node = cluster.configs.node_of(vmid) or ""
        config = cluster.configs.load(vmid, node)
        if config.flag("onboot") and not config.flag("template"):
            begin_start(cluster, vmid, node, ROOT)


def start(cluster: Cluster, vmid: int, node: str, config: CtConfig, say: Log = silent) -> None:
    """Start a container. The caller holds the lock of its config."""
    if config.pending or config.pending_delete:
        apply_pending(cluster, vmid, node, config)
        cluster.configs.save(vmid, node, config)
    _require_volumes(cluster, node, config)
    for key in sorted(key for key in config.options if key.startswith("net")):
        bridge = parse_network(str(config.options[key])).get("bridge")
        if bridge and not cluster.runtime.bridge_exists(node, bridge):
            raise OperationError(f"bridge '{bridge}' does not exist")
    spec = cluster.spec(vmid, node, config)
    if refused_mount(cluster, spec) is not None:
        say(
            "run_buffer: 322 Script exited with status 32",
            f'lxc_init: 844 Failed to run lxc.hook.pre-start for container "{vmid}"',
            f'__lxc_start: 2027 Failed to initialize container "{vmid}"',
        )
        raise OperationError(f"startup for container '{vmid}' failed")
    cluster.runtime.containers.start(spec)


def settle_stopped(cluster: Cluster, vmid: int) -> None:
    """Apply the pending changes of a container that has stopped. Without quorum they stay pending."""
    node = cluster.configs.node_of(vmid)
    if node is None or not cluster.members.quorate:
        return
    config = cluster.configs.load(vmid, node)
    if config.pending or config.pending_delete:
        apply_pending(cluster, vmid, node, config)
        cluster.configs.save(vmid, node, config)


def destroy(cluster: Cluster, vmid: int, node: str, config: CtConfig, task: Task, *, unreferenced: bool) -> None:
    """Destroy a container's own volumes and its config. Volumes of other containers stay."""
    free_all(cluster, vmid, node, config, task)
    if unreferenced:
        for storage in cluster.storages_of(node):
            for ref in owned_volumes(cluster, storage, vmid, node) if "rootdir" in storage.content else ():
                free(cluster, ref, task.say)
    # The VMID stays taken until everything else of the container is gone.
    cluster.configs.save(vmid, node, CtConfig(options={"lock": "destroyed"}))
    cluster.access.forget_container(vmid)
    cluster.access_changed()
    cluster.configs.remove(vmid)


def free_all(cluster: Cluster, vmid: int, node: str, config: CtConfig, task: Task) -> None:
    """Destroy the volumes of a config that the container owns."""
    volumes = every_volume(config.options) + every_volume(config.pending)
    for volid in dict.fromkeys(volumes):
        free_if_owned(cluster, vmid, node, volid, task.say)
