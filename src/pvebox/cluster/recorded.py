"""Load a recorded state into a cluster: configs, volumes and running containers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pvebox.access.lines import apply_access_lines
from pvebox.api.errors import SandboxError
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.fixture import storages_in
from pvebox.cluster.tasks import Task, Upid
from pvebox.guests.config import CtConfig
from pvebox.guests.disks import every_volume
from pvebox.guests.mountpoint import mount_points
from pvebox.guests.storage import StorageType, is_backup
from pvebox.runtime.contract import Archive, ContainerSpec, Mount, Volume, VolumeRef
from pvebox.runtime.lxc import LxcRuntime
from pvebox.runtime.memory import MemoryRuntime

_DIR_VOLUME_SIZE: Final = 1 << 30
_BASE_SIZE: Final = 2 << 30
_BACKUP_SIZE: Final = 100 << 20


def load_into_memory(cluster: Cluster, runtime: MemoryRuntime, state: Mapping[str, Any]) -> None:
    """Load a recorded state into a cluster with simulated containers."""
    _load_configs(cluster, state)
    now = int(time.time())
    for node, part in _parts(cluster, state):
        for ref, size, formatted in _volumes(cluster, node, part):
            runtime.volumes.put(Volume(ref, size, now, formatted))
        for storage, name, path in _dump_files(cluster, part):
            _load_dump_file(cluster, runtime, node, storage, name, path, part)
        for vmid in part.get("running", ()):
            runtime.containers.mark_running(int(vmid), tuple(_spec(cluster, int(vmid), node).mounts))
    cluster.statistics.gather()


def load_into_lxc(cluster: Cluster, runtime: LxcRuntime, state: Mapping[str, Any]) -> None:
    """Load a recorded state into a cluster with real containers, whose roots are linked clones of the template."""
    _load_configs(cluster, state)
    roots = {
        point.volume
        for vmid in cluster.configs.vmids()
        for point in mount_points(_config(cluster, vmid).options)
        if point.key == "rootfs"
    }
    golden: VolumeRef | None = None
    for node, part in _parts(cluster, state):
        for ref, size, formatted in _volumes(cluster, node, part):
            if f"{ref.storage}:{ref.name}" in roots:
                golden = golden or _unpack_once(cluster, runtime, node)
                runtime.volumes.link(golden, ref, size)
                continue
            runtime.volumes.allocate(ref, size)
            if formatted:
                runtime.volumes.format(ref)
    for node, part in _parts(cluster, state):
        for vmid in part.get("running", ()):
            runtime.containers.start(_spec(cluster, int(vmid), node))
    cluster.statistics.gather()


def _parts(cluster: Cluster, state: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each node with its part of a recorded state. The files of the shared storage come with the first node.

    The state of a single node has one part: itself.
    """
    if "nodes" not in state:
        yield cluster.local_node, state
        return
    top = next((storage.path for storage in cluster.storages.values() if storage.shared), "")
    shared = [f"{top}/{path.removeprefix('./')}" for path in state.get("shared", ())]
    for node in cluster.nodes:
        part = state["nodes"].get(node, {})
        yield node, {**part, "dir": shared} if node == cluster.local_node else part


def _load_configs(cluster: Cluster, state: Mapping[str, Any]) -> None:
    """Load storages, configs, accounts, pools, ACLs, HA resources and rules, and the cluster's membership."""
    cluster.storages.update(storages_in(list(state.get("storage", ()))))
    for node, part in _parts(cluster, state):
        for vmid, text in part.get("config", {}).items():
            cluster.configs.put(int(vmid), node, text)
    if "access" in state:
        apply_access_lines(cluster.access, list(state["access"]))
        cluster.access_changed()
    cluster.ha.load(state.get("ha", ()))
    cluster.members.offline.update(node for node, online in state.get("online", {}).items() if not online)
    cluster.members.quorate = bool(state.get("quorate", 1))


def _config(cluster: Cluster, vmid: int) -> CtConfig:
    return cluster.configs.load(vmid, cluster.configs.node_of(vmid) or "")


def _spec(cluster: Cluster, vmid: int, node: str) -> ContainerSpec:
    return cluster.spec(vmid, node, cluster.configs.load(vmid, node))


def _volumes(cluster: Cluster, node: str, state: Mapping[str, Any]) -> Iterator[tuple[VolumeRef, int, bool]]:
    """Yield each recorded volume, its size and whether it has a filesystem."""
    thin = next((s.id for s in cluster.storages.values() if s.type is StorageType.LVM_THIN), "local-lvm")
    mounted: set[str] = set()
    sizes: dict[str, int] = {}
    for vmid in cluster.configs.vmids():
        options = _config(cluster, vmid).options
        mounted.update(every_volume(options))
        sizes.update({point.volume: point.size for point in mount_points(options) if point.size})

    def is_formatted(storage: str, name: str) -> bool:
        # Proxmox numbers the volumes that it creates for containers, and formats them. Any other name was
        # chosen in a call of the storage API, which does not format.
        return re.search(r"(vm|base|subvol)-\d+-disk-\d+", name) is not None or f"{storage}:{name}" in mounted

    for name, size in state.get("volumes", {}).items():
        yield VolumeRef(node, thin, name), int(size), is_formatted(thin, name)
    for path in state.get("dir", ()):
        for storage in cluster.storages.values():
            image = re.match(rf"{re.escape(storage.path)}/images/(\d+/[^/]+)$", path)
            if storage.type is StorageType.DIR and "images" in storage.content and image:
                size = sizes.get(f"{storage.id}:{image[1]}", _DIR_VOLUME_SIZE)
                yield cluster.place(storage, node, image[1]), size, is_formatted(storage.id, image[1])


def _dump_files(cluster: Cluster, state: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield storage, name and path of each recorded backup, and of each file beside a backup."""
    for path in state.get("dir", ()):
        for storage in cluster.storages.values():
            found = re.match(rf"{re.escape(storage.path)}/dump/([^/]+)$", path)
            if storage.type is StorageType.DIR and "backup" in storage.content and found:
                yield storage.id, f"backup/{found[1]}", path


def _load_dump_file(
    cluster: Cluster, runtime: MemoryRuntime, node: str, storage: str, name: str, path: str, state: Mapping[str, Any]
) -> None:
    """Load a backup or a file beside it.

    A recorded state has the files' names. Their content may be given in `archives` (the configs), `sizes` and `notes`.
    By default a backup has the current config of its container.
    """
    if not is_backup(name):
        text = state.get("notes", {}).get(path.removesuffix(".notes"), "")
        runtime.write_text(node, storage, name, text)
        return
    owner = cluster.storage(storage).parse(name).owner
    current = state.get("config", {}).get(str(owner), "").partition("\n[")[0]
    size = int(state.get("sizes", {}).get(path, _BACKUP_SIZE))
    runtime.note_file(node, storage, name, size, state.get("archives", {}).get(path, current))


def _unpack_once(cluster: Cluster, runtime: LxcRuntime, node: str) -> VolumeRef:
    """Unpack the base template into a volume outside all storages, and return the volume."""
    for storage in cluster.storages.values():
        for name in runtime.files(node, storage.id):
            if not name.startswith("vztmpl/"):
                continue
            golden = VolumeRef(node, "unpacked", "base-0-disk-0")
            runtime.volumes.allocate(golden, _BASE_SIZE)
            runtime.volumes.format(golden)
            spec = ContainerSpec(0, node, CtConfig(), [Mount("rootfs", golden, "/")])
            archive = Archive(f"{storage.id}:{name}", runtime.file(node, storage.id, name))
            runtime.containers.populate(spec, archive, Task(Upid(node, 0, 0, 0, "unpack", "", "root@pam")))
            return golden
    raise SandboxError("The recorded state has containers, but the fixture has no template to create them from.")
