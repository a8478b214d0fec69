"""Create, free and check containers' volumes by Proxmox's rules: who owns them, and who may mount them together."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.api.routes import Call
from pvebox.cluster.cluster import Cluster
from pvebox.guests.config import CtConfig, Options, Value
from pvebox.guests.mountpoint import MountPoint, MountType, mount_points, new_disk
from pvebox.guests.options import UNUSED_KEYS
from pvebox.guests.storage import Storage, StorageType, snapshot_name
from pvebox.runtime.contract import ContainerSpec, VolumeBusyError, VolumeRef

Log = Callable[..., None]
# Messages about a mount name the volume's device. The sandbox has loop devices, and no LVM.
LOOP_DEVICE: Final = "/dev/loop0"


def silent(*lines: str) -> None:
    """Discard log lines."""


def check_volume_access(call: Call, vmid: int, volid: str, content: str | None) -> None:
    """Raise unless the caller may use a volume in a container's config."""
    cluster = call.cluster
    store, separator, _ = volid.partition(":")
    if not separator or volid.startswith("/"):
        if not call.is_root:
            raise OperationError(
                "Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 590."
            )
        return
    name = cluster.parse_volume(volid)
    # Storage plugins do not distinguish images of VMs from images of containers.
    if content is not None and name.content != content and (content, name.content) != ("rootdir", "images"):
        raise OperationError(f"unable to use volume {volid} - content type needs to be '{content}'")
    path = f"/storage/{store}"
    if call.allows(path, "Datastore.Allocate"):
        return
    match name.content:
        case "iso" | "vztmpl":
            call.require(path, "Datastore.AllocateSpace", "Datastore.Audit", any_of=True)
        case _ if name.owner == vmid:
            return
        case "backup" if name.owner is not None:
            call.require(path, "Datastore.AllocateSpace")
            call.require(f"/vms/{name.owner}", "VM.Backup")
        case "images" if name.owner is not None:
            call.require(path, "Datastore.Audit")
            call.require(f"/vms/{name.owner}", "VM.Config.Disk")
        case _:
            raise OperationError(f"missing privileges to access {volid}")


def next_volume(cluster: Cluster, storage: Storage, node: str, vmid: int, *, subvol: bool = False) -> VolumeRef:
    """Return the reference of a container's next volume on a storage. Raise if the storage is full."""
    taken = [volume.ref.name for volume in cluster.runtime.volumes.on(node, storage.id)]
    name = storage.disk_name(vmid, taken, subvol=subvol)
    cluster.require_space(storage, name)
    return cluster.place(storage, node, name)


def require_storage_lock(cluster: Cluster, storage: Storage, say: Log) -> None:
    """Raise if the lock for changes of a shared storage cannot be taken, because the cluster has no quorum."""
    if storage.shared:
        cluster.members.require_lock(f"storage-{storage.id}", cluster.configs.lock_timeout, say)


def allocate(cluster: Cluster, storage: Storage, ref: VolumeRef, size: int, say: Log) -> None:
    """Create a volume without a filesystem. LVM rounds its size up to extents of 4 MiB."""
    require_storage_lock(cluster, storage, say)
    cluster.require_space(storage, ref.name)
    if storage.type.is_lvm:
        if not size:
            lv = f"{storage.vgname}/{ref.name}"
            raise OperationError(f"lvcreate '{lv}' error:   Error during parsing of command line.")
        size = -(-size // (4 << 20)) * (4 << 20)
    cluster.runtime.volumes.allocate(ref, size)
    if storage.type.is_lvm:
        say(*_created(storage, ref))
    elif size:
        say(f"Formatting '{storage.device(ref.name)}', fmt=raw size={size} preallocation=off")


def _created(storage: Storage, ref: VolumeRef) -> list[str]:
    """Return the output of lvcreate and, for a thin volume, of the command that activates it."""
    changed = [f"  Logical volume {storage.vgname}/{ref.name} changed."] if storage.type is StorageType.LVM_THIN else []
    return [f'  Logical volume "{ref.name}" created.', *changed]


def create_disks(
    cluster: Cluster, vmid: int, node: str, wanted: Mapping[str, Value], say: Log
) -> tuple[dict[str, str], list[VolumeRef]]:
    """Create the new volumes that mount points ask for; return the mount points' config texts and the new volumes."""
    texts: dict[str, str] = {}
    made: list[VolumeRef] = []
    try:
        for point in mount_points(wanted):
            asked = new_disk(point.volume) if point.type is MountType.VOLUME else None
            if asked is None:
                texts[point.key] = str(point)
                continue
            storage = cluster.storage(asked[0])
            cluster.require_content(storage)
            size = asked[1]
            # A volume without a size is a directory, which only a directory storage can hold.
            ref = next_volume(cluster, storage, node, vmid, subvol=not size)
            allocate(cluster, storage, ref, size, say)
            made.append(ref)
            cluster.runtime.volumes.format(ref)
            if size:
                say(*_filesystem_lines(size // 4096))
            texts[point.key] = str(point.on(f"{ref.storage}:{ref.name}", size))
    except Exception:  # NodeCrashError is a BaseException: a crashed node does not clean up
        destroy_volumes(cluster, made, say)
        raise
    return texts, made


def copy_volume(
    cluster: Cluster, node: str, source: VolumeRef, storage: Storage, vmid: int, say: Log, snapshot: str | None = None
) -> VolumeRef:
    """Copy the files of a volume, or of a snapshot of it, into a new volume of a container on a node.

    Proxmox mounts the source read-only for it, which fails while a container has it mounted writable.
    """
    volumes = cluster.runtime.volumes
    origin = source if snapshot is None else replace(source, name=snapshot_name(source.name, snapshot))
    existing, original = volumes.get(source), volumes.get(origin)
    if existing is None or original is None:
        raise OperationError(cluster.storage(source.storage).missing(origin.name))
    cluster.require_content(storage)
    target = next_volume(cluster, storage, node, vmid)
    if storage.type.is_lvm:
        say(*_created(storage, target))
    say(*_filesystem_lines(existing.size // 4096))
    busy = snapshot is None and is_refused(cluster, node, source, read_only=True)
    if busy or not original.formatted:
        directory = f"/var/lib/lxc/{vmid}/.copy-volume-2"
        if busy:
            say(f"mount: {directory}: {LOOP_DEVICE} already mounted or mount point busy.")
        if storage.type.is_lvm:
            say(f'  Logical volume "{target.name}" successfully removed.')
        options = "ro" if snapshot is None else "ro,noload"
        raise OperationError(f"command 'mount -o {options} {LOOP_DEVICE} {directory}//' failed: exit code 32")
    volumes.copy(origin, target, fresh=True)
    copied = volumes.get(target)
    if copied is not None and copied.size < existing.size:
        # The new volume has the size of the current one, also if the snapshot is smaller.
        volumes.resize(target, existing.size, silent, online=False)
    return target


def _filesystem_lines(blocks: int) -> list[str]:
    """Return the output of mkfs. ext4 keeps superblock copies in group 1 and in the powers of 3, 5 and 7."""
    per_group = 32768
    groups = -(-blocks // per_group)
    powers = {base**exponent for base in (3, 5, 7) for exponent in range(16)}
    backups = ", ".join(str(group * per_group) for group in sorted(powers) if group < groups)
    return [
        f"Creating filesystem with {blocks} 4k blocks and {blocks // 4} inodes",
        f"Filesystem UUID: {uuid.uuid4()}",
        *(["Superblock backups stored on blocks: ", f"\t{backups}"] if backups else []),
    ]


def destroy_volumes(cluster: Cluster, refs: list[VolumeRef], say: Log) -> None:
    """Destroy the volumes that a failed operation created."""
    for ref in refs:
        free(cluster, ref, say)


def free(cluster: Cluster, ref: VolumeRef, say: Log) -> None:
    """Destroy a volume and, on LVM-thin, its snapshots. Raise if the volume is mounted."""
    storage = cluster.storage(ref.storage)
    require_storage_lock(cluster, storage, say)
    if cluster.runtime.volumes.get(ref) is None:
        return
    try:
        for snapshot in cluster.snapshots_of(ref):
            cluster.runtime.volumes.remove(snapshot)
        cluster.runtime.volumes.remove(ref)
    except VolumeBusyError:
        lv = f"{storage.vgname}/{ref.name}"
        raise OperationError(f"lvremove '{lv}' error:   Logical volume {lv} contains a filesystem in use.") from None
    if storage.type.is_lvm:
        say(f'  Logical volume "{ref.name}" successfully removed.')


def free_if_owned(cluster: Cluster, vmid: int, node: str, volid: str, say: Log) -> None:
    """Destroy a volume if the container owns it, according to the volume's name."""
    if volid.startswith("/"):
        return
    _, ref = cluster.locate(volid, node)
    if cluster.parse_volume(volid).owner == vmid:
        free(cluster, ref, say)
    else:
        say(f"ignore deletion of '{volid}', CT {vmid} isn't the owner!")


def owned_volumes(cluster: Cluster, storage: Storage, vmid: int, node: str) -> list[VolumeRef]:
    """Return the volumes of a container on a storage of a node, according to the volumes' names."""
    owned = []
    for volume in cluster.runtime.volumes.on(node, storage.id):
        try:
            name = storage.parse(volume.ref.name)
        except OperationError:
            continue
        if name.owner == vmid:
            owned.append(volume.ref)
    return owned


def in_use(config: CtConfig, volid: str) -> bool:
    """Return whether a config, its pending changes or its snapshots mount a volume."""
    sections: list[Options] = [config.options, config.pending, *config.snapshots.values()]
    return any(point.volume == volid for section in sections for point in mount_points(section))


def every_volume(options: Mapping[str, Value]) -> list[str]:
    """Return the volume ids of a config section without duplicates, unused volumes last."""
    found = [point.volume for point in mount_points(options)]
    found += [str(options[key]) for key in UNUSED_KEYS if key in options]
    return list(dict.fromkeys(found))


def with_true_size(cluster: Cluster, point: MountPoint, node: str) -> MountPoint:
    """Return a mount point with the real size of its volume, or unchanged if the volume does not exist."""
    if point.type is not MountType.VOLUME:
        return point
    volume = cluster.runtime.volumes.get(cluster.locate(point.volume, node)[1])
    return point if volume is None else point.on(point.volume, volume.size)


def is_refused(cluster: Cluster, node: str, ref: VolumeRef, *, read_only: bool) -> bool:
    """Return whether the kernel of a node refuses to mount a volume, because containers have mounted it.

    On one node all mounts of a volume share one superblock, which is either read-only or writable. Between nodes,
    ext4's multi-mount protection refuses a second writable mount.
    """
    if not cluster.runtime.volumes.mounted(ref):
        return False
    # A volume that was renamed while a container had it mounted has its old name in that container's config.
    mounts = list(_mounts(cluster, ref)) or [(node, False)]
    return any(other != read_only if where == node else not other and not read_only for where, other in mounts)


def refused_mount(cluster: Cluster, spec: ContainerSpec) -> str | None:
    """Return the key of a container's first mount that the kernel would refuse now, or None."""
    for mount in spec.mounts:
        source = mount.source
        if isinstance(source, VolumeRef) and is_refused(cluster, spec.node, source, read_only=mount.read_only):
            return mount.key
    return None


def _mounts(cluster: Cluster, ref: VolumeRef) -> Iterator[tuple[str, bool]]:
    """Yield for each mount of a volume in a running container its node, and whether it is read-only."""
    for vmid in cluster.configs.vmids():
        node = cluster.configs.node_of(vmid)
        if node is None or not cluster.runtime.containers.running(vmid):
            continue
        for mount in cluster.spec(vmid, node, cluster.configs.load(vmid, node)).mounts:
            if mount.source == ref:
                yield node, mount.read_only
