"""The features of storages that snapshots and clones need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pvebox.cluster.cluster import Cluster
from pvebox.guests.config import Value
from pvebox.guests.mountpoint import MountType, mount_points
from pvebox.guests.storage import StorageType

# By storage type and feature: the states of a volume that have the feature. A volume's state is `snap` if the question
# is about one of its snapshots, `base` if it belongs to a template, else `current`. A linked clone on a directory is a
# qcow2 file, which containers cannot use. Thick LVM has neither templates nor clones.
_FEATURES: Final[Mapping[StorageType, Mapping[str, tuple[str, ...]]]] = {
    StorageType.LVM_THIN: {
        "snapshot": ("current",),
        "template": ("current",),
        "clone": ("base", "snap"),
        "copy": ("base", "current", "snap"),
        "rename": ("current",),
    },
    StorageType.LVM: {
        "snapshot": (),
        "template": (),
        "clone": (),
        "copy": ("base", "current"),
        "rename": ("current",),
    },
    StorageType.DIR: {
        "snapshot": (),
        "template": ("current",),
        "clone": (),
        "copy": ("base", "current"),
        "rename": ("current",),
    },
}


def volume_has_feature(cluster: Cluster, feature: str, volid: str, snapshot: str | None = None) -> bool:
    """Return whether a volume, or a snapshot of it, has a feature. Paths of the node have none."""
    if volid.startswith("/"):
        return False
    storage = cluster.storage(volid.partition(":")[0])
    state = "snap" if snapshot else "base" if cluster.parse_volume(volid).is_base else "current"
    # All other storages of files have the features of a directory.
    return state in _FEATURES.get(storage.type, _FEATURES[StorageType.DIR])[feature]


def has_feature(cluster: Cluster, feature: str, options: Mapping[str, Value], snapshot: str | None = None) -> bool:
    """Return whether all mount points of a config section have a feature."""
    return all(
        point.type is MountType.VOLUME and volume_has_feature(cluster, feature, point.volume, snapshot)
        for point in mount_points(options)
    )
