"""Volumes that several containers mount: read-only and writable mounts exclude each other."""

from __future__ import annotations

from collections.abc import Iterator

from pvebox.cluster.cluster import Cluster
from pvebox.runtime.contract import ContainerSpec, VolumeRef


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
