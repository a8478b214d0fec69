"""Volumes that several containers of a node mount: read-only and writable mounts exclude each other."""

from __future__ import annotations

from .cluster import Cluster
from .runtime import ContainerSpec, VolumeRef


def is_refused(cluster: Cluster, ref: VolumeRef, *, read_only: bool) -> bool:
    """Return whether the kernel refuses to mount a volume because it is mounted in the other mode.

    All mounts of a block device share one superblock, which is either read-only or writable.
    """
    if not cluster.runtime.volumes.mounted(ref):
        return False
    # A volume that was renamed while a container had it mounted has its old name in that container's config.
    modes = _modes(cluster, ref) or {False}
    return bool(modes - {read_only})


def refused_mount(cluster: Cluster, spec: ContainerSpec) -> str | None:
    """Return the key of a container's first mount that the kernel would refuse now, or None."""
    for mount in spec.mounts:
        if isinstance(mount.source, VolumeRef) and is_refused(cluster, mount.source, read_only=mount.read_only):
            return mount.key
    return None


def _modes(cluster: Cluster, ref: VolumeRef) -> set[bool]:
    """Return for each running container that mounts a volume whether it does so read-only."""
    found = set()
    for vmid in cluster.configs.vmids():
        node = cluster.configs.node_of(vmid)
        if node is None or not cluster.runtime.containers.running(vmid):
            continue
        for mount in cluster.spec(vmid, node, cluster.configs.load(vmid, node)).mounts:
            if mount.source == ref:
                found.add(mount.read_only)
    return found
