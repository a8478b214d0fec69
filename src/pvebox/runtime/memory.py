"""The memory runtime: simulated volumes and containers, without root."""

from __future__ import annotations

import base64
import itertools
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from pvebox.cluster.tasks import Task
from pvebox.guests.config import CtConfig
from pvebox.guests.network import parse_network
from pvebox.runtime.confined import parts_of, path_below
from pvebox.runtime.contract import (
    Archive,
    ArchiveOrder,
    ContainerSpec,
    Interface,
    Mount,
    NotMountableError,
    Say,
    Sharing,
    Unpacked,
    Usage,
    Volume,
    VolumeBusyError,
    VolumeRef,
)
from pvebox.server.saved import SavedDict, SaveFile

# The node, storage and name of a file.
_FileKey = tuple[str, str, str]
_LOOPBACK = Interface("lo", "00:00:00:00:00:00", (("inet", "127.0.0.1", 8), ("inet6", "::1", 128)))


class MemoryRuntime:
    """Volumes, containers and files that are only records."""

    def __init__(self, state: Path | None, bridges: Mapping[str, tuple[str, ...]]) -> None:
        self.sharing = Sharing()
        self._home = self.sharing.home
        # Console commands such as mkdir and chown work on this directory, never on the real host.
        self._scratch = None if state else tempfile.TemporaryDirectory(prefix="pvebox-memory-")
        self._host = (state or Path(self._scratch.name if self._scratch else "")) / "host"
        self._bridges = dict(bridges)
        saved = SaveFile(state / "memory.jsonl" if state else None)
        # Size and time of a file, by node, storage and name; the text of a small file; the config in a backup.
        self._files: SavedDict[_FileKey, tuple[int, int]] = saved.table("files", lambda key, data: (key, tuple(data)))
        self._archived: SavedDict[_FileKey, str] = saved.table("archived")
        self._texts: SavedDict[_FileKey, str] = saved.table("texts")
        self._stopped: list[Callable[[int], None]] = []
        self.volumes = MemoryVolumes(
            # Lambdas, because the containers are created after the volumes.
            lambda ref: self.containers.uses(ref),
            lambda old, new: self.containers.rename_mounts(old, new),
            saved.table("volumes", _decode_volume),
            self.sharing,
        )
        self._running: SavedDict[int, bool] = saved.table("running")
        self.containers = MemoryContainers(self.volumes, self._call_stop_hooks, self._running)

    def bridge_exists(self, node: str, bridge: str) -> bool:
        """Return whether the node has a bridge of this name."""
        return bridge in self._bridges.get(node, ())

    def host_path(self, node: str, path: str) -> Path:
        """Return the path in the sandbox's directory that stands for a path of the node."""
        return path_below(self._host, node, *parts_of(path))

    def on_stop(self, hook: Callable[[int], None]) -> None:
        """Register a hook that is called after a container has stopped."""
        self._stopped.append(hook)

    def files(self, node: str, storage: str) -> dict[str, tuple[int, int]]:
        """Return the files of a directory storage: name to size and time."""
        home, known = self._home(node, storage), dict(self._files.data)
        return {name: facts for (on, where, name), facts in known.items() if (on, where) == (home, storage)}

    def read_text(self, node: str, storage: str, name: str) -> str | None:
        """Return the text of a small file, or None."""
        return self._texts.get(self._key(node, storage, name))

    def write_text(self, node: str, storage: str, name: str, text: str) -> None:
        """Record a small file."""
        self._texts[self._key(node, storage, name)] = text
        self.add_file(node, storage, name, len(text.encode()))

    def add_file(self, node: str, storage: str, name: str, size: int) -> None:
        """Record a file of this size on a directory storage."""
        self._files[self._key(node, storage, name)] = (size, int(time.time()))

    def note_file(self, node: str, storage: str, name: str, size: int, config_text: str = "") -> None:
        """Record a file and, for a backup, the config in it."""
        self._archived[self._key(node, storage, name)] = config_text
        self.add_file(node, storage, name, size)

    def archived_config(self, node: str, storage: str, name: str) -> str | None:
        """Return the text of the config in a backup, or None."""
        return self._archived.get(self._key(node, storage, name))

    def remove_file(self, node: str, storage: str, name: str) -> None:
        """Remove a file if it exists."""
        for records in (self._files, self._archived, self._texts):
            records.pop(self._key(node, storage, name), None)

    def _key(self, node: str, storage: str, name: str) -> _FileKey:
        return self._home(node, storage), storage, name

    def file(self, node: str, storage: str, name: str) -> Path | None:
        """Return None: the files are not real."""
        return None

    def close(self) -> None:
        """Do nothing: every change is saved already."""

    def _call_stop_hooks(self, vmid: int) -> None:
        for hook in self._stopped:
            hook(vmid)


def _decode_volume(key: tuple[str, str, str], data: dict[str, Any]) -> tuple[VolumeRef, Volume]:
    ref = VolumeRef(*key)
    return ref, Volume(**{**data, "ref": ref})


class MemoryVolumes:
    """Simulated volumes: a size and a flag for the filesystem."""

    def __init__(
        self,
        busy: Callable[[VolumeRef], bool],
        renamed: Callable[[VolumeRef, VolumeRef], None],
        volumes: SavedDict[VolumeRef, Volume],
        sharing: Sharing,
    ) -> None:
        self._volumes = volumes
        self._home = sharing.home
        self._busy = busy
        self._renamed = renamed

    def everything(self) -> list[Volume]:
        """Return all volumes of all storages."""
        return self._volumes.snapshot()

    def put(self, volume: Volume) -> None:
        """Add a volume."""
        self._volumes[volume.ref] = volume

    def on(self, node: str, storage: str) -> list[Volume]:
        """Return the volumes of a storage, including snapshots."""
        home = self._home(node, storage)
        return [v for v in self.everything() if v.ref.node == home and v.ref.storage == storage]

    def get(self, ref: VolumeRef) -> Volume | None:
        """Return the volume, or None if it does not exist."""
        return self._volumes.get(ref)

    def allocate(self, ref: VolumeRef, size: int) -> None:
        """Create an empty volume without a filesystem."""
        self._volumes[ref] = Volume(ref, size, int(time.time()), formatted=False)

    def format(self, ref: VolumeRef) -> None:
        """Record that the volume has a filesystem."""
        self._volumes[ref] = replace(self._volumes[ref], formatted=True)

    def remove(self, ref: VolumeRef) -> None:
        """Remove a volume. Raise if it is mounted."""
        if self._busy(ref):
            raise VolumeBusyError(ref.name)
        self._volumes.pop(ref, None)

    def rename(self, ref: VolumeRef, name: str) -> None:
        """Rename a volume on its storage."""
        new = replace(ref, name=name)
        self._volumes[new] = replace(self._volumes[ref], ref=new)
        del self._volumes[ref]
        self._renamed(ref, new)

    def mounted(self, ref: VolumeRef) -> bool:
        """Return whether a running container mounts the volume."""
        return self._busy(ref)

    def resize(self, ref: VolumeRef, size: int, say: Say, *, online: bool) -> None:
        """Change the size of a volume."""
        self._volumes[ref] = replace(self._volumes[ref], size=size)

    def copy(self, source: VolumeRef, target: VolumeRef, *, fresh: bool = False) -> None:
        """Create a volume of the same size."""
        self._volumes[target] = replace(self._volumes[source], ref=target, ctime=int(time.time()))

    def link(self, base: VolumeRef, target: VolumeRef) -> None:
        """Create a volume of the same size."""
        self.copy(base, target)


class MemoryContainers:
    """Simulated containers: running or stopped."""

    def __init__(self, volumes: MemoryVolumes, stopped: Callable[[int], None], running: SavedDict[int, bool]) -> None:
        self._volumes = volumes
        self._stopped = stopped
        # The VMIDs of the running containers, for the next server.
        self._saved = running
        self._pids = itertools.count(20000)
        self._running: dict[int, tuple[int, float, tuple[Mount, ...]]] = {
            vmid: (next(self._pids), time.time(), ()) for vmid in running
        }
        self._lock = threading.Lock()

    def uses(self, ref: VolumeRef) -> bool:
        """Return whether any running container mounts the volume."""
        return any(mount.source == ref for _, _, mounts in list(self._running.values()) for mount in mounts)

    def rename_mounts(self, old: VolumeRef, new: VolumeRef) -> None:
        """Record the new name of a volume in the mounts of the running containers."""
        with self._lock:
            for vmid, (pid, since, mounts) in self._running.items():
                moved = tuple(replace(mount, source=new) if mount.source == old else mount for mount in mounts)
                self._running[vmid] = (pid, since, moved)

    def running_vmids(self) -> list[int]:
        """Return the VMIDs of the running containers."""
        return list(self._running)

    def mark_running(self, vmid: int, mounts: tuple[Mount, ...]) -> None:
        """Record that a container runs with these mounts."""
        with self._lock:
            self._running[vmid] = (next(self._pids), time.time(), mounts)
            self._saved[vmid] = True

    def running(self, vmid: int) -> bool:
        """Return whether a container runs."""
        return vmid in self._running

    def populate(self, spec: ContainerSpec, archive: Archive, task: Task) -> Unpacked:
        """Check that all volumes have a filesystem, and report the systemd version of Debian 12."""
        self._require_mountable(spec)
        task.say("Total bytes read: 237824000 (227MiB, 200MiB/s)")
        return Unpacked(systemd=252)

    def prepare(self, spec: ContainerSpec, password: str | None, ssh_keys: str | None, say: Say) -> None:
        """Log random fingerprints of ssh host keys."""
        for kind in ("ed25519", "rsa", "ecdsa"):
            fingerprint = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
            say(f"Creating SSH host key 'ssh_host_{kind}_key' - this may take some time ...")
            say(f"done: SHA256:{fingerprint} root@localhost")

    def settle_clone(self, spec: ContainerSpec) -> Unpacked:
        """Report the systemd version of Debian 12."""
        return Unpacked(systemd=252)

    def start(self, spec: ContainerSpec) -> None:
        """Record that a container runs."""
        self.mark_running(spec.vmid, tuple(spec.mounts))

    def stop(self, vmid: int) -> None:
        """Record that a container is stopped, and call the hooks if it was running."""
        with self._lock:
            was_running = self._running.pop(vmid, None) is not None
            self._saved.pop(vmid, None)
        if was_running:
            self._stopped(vmid)

    def crash(self, vmid: int) -> None:
        """Stop the container."""
        self.stop(vmid)

    def shutdown(self, vmid: int, timeout: float) -> bool:
        """Stop the container at once and return True."""
        self.stop(vmid)
        return True

    def frozen(self, vmid: int) -> AbstractContextManager[None]:
        """Do nothing: a simulated container has no processes."""
        return nullcontext()

    def mount_live(self, vmid: int, mount: Mount) -> None:
        """Record the mount."""
        with self._lock:
            pid, since, mounts = self._running[vmid]
            self._running[vmid] = (pid, since, (*mounts, mount))

    def limit_live(self, vmid: int, options: Mapping[str, object]) -> None:
        """Do nothing: a simulated container has no limits."""

    def execute(self, vmid: int, argv: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        """Return exit code 0 and no output, without running anything."""
        return 0, "", ""

    def attach_command(self, vmid: int, argv: Sequence[str]) -> None:
        """Return None: a simulated container runs nothing."""

    def push(self, spec: ContainerSpec, path: str, content: bytes, mode: int) -> None:
        """Do nothing: a simulated container has no files."""

    def usage(self, vmid: int) -> Usage:
        """Return plausible figures."""
        pid, since, mounts = self._running[vmid]
        disk = 250 << 20
        root = next((m.source for m in mounts if m.key == "rootfs"), None)
        volume = self._volumes.get(root) if isinstance(root, VolumeRef) else None
        # ext4 uses some of a volume for its own data.
        maxdisk = None if volume is None else volume.size * 95 // 100
        return Usage(pid, int(time.time() - since), mem=12 << 20, disk=disk, maxdisk=maxdisk)

    def interfaces(self, vmid: int, config: CtConfig) -> list[Interface]:
        """Return loopback, and an interface without addresses for each network of the config."""
        found = [_LOOPBACK]
        for key in sorted(key for key in config.options if key.startswith("net")):
            network = parse_network(str(config.options[key]))
            found.append(Interface(network["name"], network.get("hwaddr", "").lower()))
        return found

    def archive(self, order: ArchiveOrder, task: Task, say: Say) -> int:
        """Check that all volumes have a filesystem, and return the size of an imaginary archive."""
        self._require_mountable(order.spec)
        say("Total bytes written: 237824000 (227MiB, 200MiB/s)")
        return 100 << 20

    def _require_mountable(self, spec: ContainerSpec) -> None:
        for mount in spec.mounts:
            if isinstance(mount.source, VolumeRef):
                volume = self._volumes.get(mount.source)
                if volume is not None and not volume.formatted:
                    raise NotMountableError(mount.key)
