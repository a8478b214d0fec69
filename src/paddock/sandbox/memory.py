"""The runtime without machines: volumes have sizes, containers have states, nothing needs root."""

from __future__ import annotations

import base64
import itertools
import json
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .config import CtConfig
from .confined import below, parts_of
from .network import parse_network
from .runtime import (
    Archive,
    GuestSpec,
    Interface,
    Mount,
    NotMountableError,
    Say,
    Unpacked,
    Usage,
    Volume,
    VolumeBusyError,
    VolumeRef,
)
from .tasks import Task

_LOOPBACK = Interface("lo", "00:00:00:00:00:00", (("inet", "127.0.0.1", 8), ("inet6", "::1", 128)))


class MemoryRuntime:
    """A node whose containers exist only on paper."""

    def __init__(self, state: Path | None, bridges: Mapping[str, tuple[str, ...]]) -> None:
        self._file = state / "memory.json" if state else None
        # Root at the console makes directories and gives them away: never those of the machine this runs on.
        self._scratch = None if state else tempfile.TemporaryDirectory(prefix="paddock-paper-")
        self._host = (state or Path(self._scratch.name if self._scratch else "")) / "host"
        self._bridges = dict(bridges)
        self._saving = threading.Lock()
        self._files: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
        self._archived: dict[str, str] = {}
        self._stopped: list[Callable[[int], None]] = []
        self.volumes = MemoryVolumes(self.busy, self.save)
        self.containers = MemoryContainers(self.volumes, self._say_stopped, self.save)
        self._load()

    def bridge_exists(self, node: str, bridge: str) -> bool:
        """Whether the node was given a bridge of that name."""
        return bridge in self._bridges.get(node, ())

    def host_path(self, node: str, path: str) -> Path:
        """A node's own filesystem is a directory of the sandbox: the host's is out of reach."""
        return below(self._host, node, *parts_of(path))

    def on_stop(self, hook: Callable[[int], None]) -> None:
        """Call a hook whenever a container has ended."""
        self._stopped.append(hook)

    def templates(self, node: str, storage: str) -> dict[str, tuple[int, int]]:
        """The files somebody put on a directory storage."""
        return self._files.get((node, storage), {})

    def add_file(self, node: str, storage: str, name: str, size: int) -> None:
        """Put a file of some size on a directory storage."""
        self._files.setdefault((node, storage), {})[name] = (size, int(time.time()))
        self.save()

    def note_file(self, node: str, storage: str, name: str, size: int, config_text: str = "") -> None:
        """Note a file, and the config in it if it is a backup."""
        self._archived[f"{node}/{storage}/{name}"] = config_text
        self.add_file(node, storage, name, size)

    def archived_config(self, node: str, storage: str, name: str) -> str | None:
        """The config text inside a backup."""
        return self._archived.get(f"{node}/{storage}/{name}")

    def remove_file(self, node: str, storage: str, name: str) -> None:
        """Remove a file, if it is there."""
        self._files.get((node, storage), {}).pop(name, None)
        self.save()

    def file(self, node: str, storage: str, name: str) -> Path | None:
        """None: there are no real files."""
        return None

    def busy(self, ref: VolumeRef) -> bool:
        """Whether a running container has the volume mounted."""
        return self.containers.uses(ref)

    def close(self) -> None:
        """Write down what would be lost."""
        self.save()

    def _say_stopped(self, vmid: int) -> None:
        for hook in self._stopped:
            hook(vmid)

    def save(self) -> None:
        """Write the state where a later server finds it."""
        if self._file is None:
            return
        with self._saving:
            self._write(self._file)

    def _write(self, file: Path) -> None:
        data = {
            "volumes": [
                [v.ref.node, v.ref.storage, v.ref.name, v.size, v.ctime, v.formatted] for v in self.volumes.everything()
            ],
            "running": self.containers.running_vmids(),
            "files": [[*key, files] for key, files in self._files.items()],
            "archived": self._archived,
        }
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps(data), encoding="utf-8")
        temporary.replace(file)

    def _load(self) -> None:
        if self._file is None or not self._file.exists():
            return
        data = json.loads(self._file.read_text(encoding="utf-8"))
        for node, storage, name, size, ctime, formatted in data["volumes"]:
            self.volumes.put(Volume(VolumeRef(node, storage, name), size, ctime, formatted))
        for node, storage, files in data["files"]:
            self._files[node, storage] = {name: (size, when) for name, (size, when) in files.items()}
        self._archived = data["archived"]
        for vmid in data["running"]:
            self.containers.mark_running(vmid, ())


class MemoryVolumes:
    """Volumes that are numbers."""

    def __init__(self, busy: Callable[[VolumeRef], bool], changed: Callable[[], None]) -> None:
        self._volumes: dict[VolumeRef, Volume] = {}
        self._busy = busy
        self._changed = changed

    def everything(self) -> list[Volume]:
        """Every volume of every storage."""
        return list(self._volumes.values())

    def put(self, volume: Volume) -> None:
        """Say that a volume exists."""
        self._volumes[volume.ref] = volume

    def on(self, node: str, storage: str) -> list[Volume]:
        """The volumes of a storage, snapshots among them."""
        return [v for v in self.everything() if v.ref.node == node and v.ref.storage == storage]

    def get(self, ref: VolumeRef) -> Volume | None:
        """The volume, if it exists."""
        return self._volumes.get(ref)

    def allocate(self, ref: VolumeRef, size: int) -> None:
        """Make an empty volume, without a filesystem."""
        self._volumes[ref] = Volume(ref, size, int(time.time()), formatted=False)
        self._changed()

    def format(self, ref: VolumeRef) -> None:
        """Note that the volume has a filesystem."""
        self._volumes[ref] = replace(self._volumes[ref], formatted=True)
        self._changed()

    def remove(self, ref: VolumeRef) -> None:
        """Forget a volume that nothing has mounted."""
        if self._busy(ref):
            raise VolumeBusyError(ref.name)
        self._volumes.pop(ref, None)
        self._changed()

    def rename(self, ref: VolumeRef, name: str) -> None:
        """Give a volume another name on its storage."""
        new = replace(ref, name=name)
        self._volumes[new] = replace(self._volumes.pop(ref), ref=new)
        self._changed()

    def resize(self, ref: VolumeRef, size: int, say: Say, *, online: bool) -> None:
        """Give a volume another size."""
        self._volumes[ref] = replace(self._volumes[ref], size=size)
        self._changed()

    def copy(self, source: VolumeRef, target: VolumeRef) -> None:
        """Make a volume of the same size."""
        self._volumes[target] = replace(self._volumes[source], ref=target, ctime=int(time.time()))
        self._changed()

    def link(self, base: VolumeRef, target: VolumeRef) -> None:
        """Make a volume of the same size."""
        self.copy(base, target)


class MemoryContainers:
    """Containers that are states."""

    def __init__(self, volumes: MemoryVolumes, stopped: Callable[[int], None], changed: Callable[[], None]) -> None:
        self._volumes = volumes
        self._stopped = stopped
        self._changed = changed
        self._running: dict[int, tuple[int, float, tuple[Mount, ...]]] = {}
        self._pids = itertools.count(20000)
        self._lock = threading.Lock()

    def uses(self, ref: VolumeRef) -> bool:
        """Whether a running container mounts the volume."""
        return any(mount.source == ref for _, _, mounts in self._running.values() for mount in mounts)

    def running_vmids(self) -> list[int]:
        """The containers that run."""
        return list(self._running)

    def mark_running(self, vmid: int, mounts: tuple[Mount, ...]) -> None:
        """Say that a container runs."""
        with self._lock:
            self._running[vmid] = (next(self._pids), time.time(), mounts)

    def running(self, vmid: int) -> bool:
        """Whether a container runs."""
        return vmid in self._running

    def populate(self, spec: GuestSpec, archive: Archive, task: Task) -> Unpacked:
        """Check that everything could be mounted; the systemd is Debian 12's."""
        for mount in spec.mounts:
            if isinstance(mount.source, VolumeRef):
                volume = self._volumes.get(mount.source)
                if volume is not None and not volume.formatted:
                    raise NotMountableError(mount.key)
        task.say("Total bytes read: 237824000 (227MiB, 200MiB/s)")
        return Unpacked(systemd=252)

    def prepare(self, spec: GuestSpec, password: str | None, ssh_keys: str | None, say: Say) -> None:
        """Say fingerprints of keys that are not there."""
        for kind in ("ed25519", "rsa", "ecdsa"):
            fingerprint = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
            say(f"Creating SSH host key 'ssh_host_{kind}_key' - this may take some time ...")
            say(f"done: SHA256:{fingerprint} root@localhost")

    def settle_clone(self, spec: GuestSpec) -> Unpacked:
        """The same system as its source's."""
        return Unpacked(systemd=252)

    def start(self, spec: GuestSpec) -> None:
        """Note that a container runs."""
        self.mark_running(spec.vmid, tuple(spec.mounts))
        self._changed()

    def stop(self, vmid: int) -> None:
        """Note that a container no longer runs."""
        with self._lock:
            was_running = self._running.pop(vmid, None) is not None
        self._changed()
        if was_running:
            self._stopped(vmid)

    def shutdown(self, vmid: int, timeout: float) -> bool:
        """End it at once."""
        self.stop(vmid)
        return True

    def mount_live(self, vmid: int, mount: Mount) -> None:
        """Note the mount."""
        with self._lock:
            pid, since, mounts = self._running[vmid]
            self._running[vmid] = (pid, since, (*mounts, mount))

    def limit_live(self, vmid: int, options: Mapping[str, object]) -> None:
        """Nothing: there is nothing to limit."""

    def execute(self, vmid: int, argv: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        """Nothing runs here, so everything succeeds in silence."""
        return 0, "", ""

    def push(self, spec: GuestSpec, path: str, content: bytes, mode: int) -> None:
        """Nothing: there are no files."""

    def usage(self, vmid: int) -> Usage:
        """Plausible numbers."""
        pid, since, mounts = self._running[vmid]
        disk = 250 << 20
        root = next((m.source for m in mounts if m.key == "rootfs"), None)
        volume = self._volumes.get(root) if isinstance(root, VolumeRef) else None
        # ext4 keeps some of a volume for itself.
        maxdisk = None if volume is None else volume.size * 95 // 100
        return Usage(pid, int(time.time() - since), mem=12 << 20, disk=disk, maxdisk=maxdisk)

    def interfaces(self, vmid: int, config: CtConfig) -> list[Interface]:
        """Loopback, and a bare interface for each network of the config."""
        found = [_LOOPBACK]
        for key in sorted(key for key in config.options if key.startswith("net")):
            network = parse_network(str(config.options[key]))
            found.append(Interface(network["name"], network.get("hwaddr", "").lower()))
        return found

    def archive(self, spec: GuestSpec, target: Path | None, config_text: str) -> int:
        """A size: there is nothing to pack."""
        return 100 << 20
