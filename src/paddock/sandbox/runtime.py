"""What stands behind the API: volumes with bytes in them and containers that run, real or imagined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from .config import CtConfig
from .tasks import Task

Say = Callable[..., None]


@dataclass(frozen=True)
class VolumeRef:
    """Where a volume is: node, storage, name."""

    node: str
    storage: str
    name: str


@dataclass(frozen=True)
class Volume:
    """A volume that exists."""

    ref: VolumeRef
    size: int
    ctime: int
    formatted: bool = True


class VolumeBusyError(Exception):
    """Raised when a volume that a running container has mounted should go."""


class NotMountableError(Exception):
    """Raised when a volume without a filesystem should be mounted."""


@dataclass(frozen=True)
class Mount:
    """One thing to mount in a container: a volume or a path of the host, and where."""

    key: str
    source: VolumeRef | Path
    path: str
    read_only: bool = False


@dataclass(frozen=True)
class GuestSpec:
    """Everything a runtime needs to know to create or start a container."""

    vmid: int
    node: str
    config: CtConfig
    mounts: Sequence[Mount]


@dataclass(frozen=True)
class Archive:
    """A template archive: its volume id and, where it is a file, its path."""

    volid: str
    path: Path | None


@dataclass(frozen=True)
class Unpacked:
    """What was found in an unpacked template."""

    systemd: int | None = None
    arch: str = "amd64"
    ostype: str = "debian"


@dataclass(frozen=True)
class Usage:
    """What a running container uses at this moment."""

    pid: int
    uptime: int
    mem: int = 0
    swap: int = 0
    disk: int = 0
    maxdisk: int | None = None
    netin: int = 0
    netout: int = 0
    cpu: float = 0


@dataclass(frozen=True)
class Interface:
    """A network interface as seen inside a container."""

    name: str
    mac: str
    addresses: Sequence[tuple[str, str, int]] = field(default_factory=tuple)


class Volumes(Protocol):
    """Volumes of all storages; sizes in bytes."""

    def on(self, node: str, storage: str) -> list[Volume]:
        """The volumes of a storage, snapshots among them."""
        ...

    def get(self, ref: VolumeRef) -> Volume | None:
        """The volume, if it exists."""
        ...

    def allocate(self, ref: VolumeRef, size: int) -> None:
        """Make an empty volume, without a filesystem."""
        ...

    def format(self, ref: VolumeRef) -> None:
        """Put an empty filesystem on a volume, owned by the containers' root."""
        ...

    def remove(self, ref: VolumeRef) -> None:
        """Destroy a volume."""
        ...

    def rename(self, ref: VolumeRef, name: str) -> None:
        """Give a volume another name on its storage."""
        ...

    def resize(self, ref: VolumeRef, size: int, say: Say, *, online: bool) -> None:
        """Grow a volume and, where nothing hinders it, its filesystem."""
        ...

    def copy(self, source: VolumeRef, target: VolumeRef) -> None:
        """Make a volume with the content of another, as it is now."""
        ...

    def link(self, base: VolumeRef, target: VolumeRef) -> None:
        """Make a volume that shares a base's content and keeps only its own changes."""
        ...


class Containers(Protocol):
    """The machines themselves."""

    def running(self, vmid: int) -> bool:
        """Whether a container runs."""
        ...

    def populate(self, spec: GuestSpec, archive: Archive, task: Task) -> Unpacked:
        """Unpack a template archive over a container's mounts."""
        ...

    def prepare(self, spec: GuestSpec, password: str | None, ssh_keys: str | None, say: Say) -> None:
        """Give a freshly unpacked container its own host keys (saying their fingerprints), name, accounts."""
        ...

    def settle_clone(self, spec: GuestSpec) -> Unpacked:
        """Make a copied container another machine, as far as Proxmox does."""
        ...

    def start(self, spec: GuestSpec) -> None:
        """Start a container; return when its init runs."""
        ...

    def stop(self, vmid: int) -> None:
        """End a container at once."""
        ...

    def shutdown(self, vmid: int, timeout: float) -> bool:
        """Ask a container to end; return whether it did in time."""
        ...

    def mount_live(self, vmid: int, mount: Mount) -> None:
        """Mount something in a running container."""
        ...

    def limit_live(self, vmid: int, options: Mapping[str, object]) -> None:
        """Give a running container other limits."""
        ...

    def execute(self, vmid: int, argv: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        """Run a program as root in a running container: its exit code and what it said."""
        ...

    def push(self, spec: GuestSpec, path: str, content: bytes, mode: int) -> None:
        """Write a file into a container."""
        ...

    def usage(self, vmid: int) -> Usage:
        """What a running container uses."""
        ...

    def interfaces(self, vmid: int, config: CtConfig) -> list[Interface]:
        """The interfaces inside a running container."""
        ...

    def archive(self, spec: GuestSpec, target: Path | None, config_text: str) -> int:
        """Pack a container's mounts and its config into an archive file; return its size."""
        ...


class Runtime(Protocol):
    """Volumes and containers, and the network they are on."""

    @property
    def volumes(self) -> Volumes:
        """Its volumes."""
        ...

    @property
    def containers(self) -> Containers:
        """Its containers."""
        ...

    def bridge_exists(self, node: str, bridge: str) -> bool:
        """Whether containers can be attached to a bridge of that name."""
        ...

    def host_path(self, node: str, path: str) -> Path:
        """Where a path of the node's own filesystem really is."""
        ...

    def on_stop(self, hook: Callable[[int], None]) -> None:
        """Call a hook whenever a container has ended, by itself or not."""
        ...

    def templates(self, node: str, storage: str) -> dict[str, tuple[int, int]]:
        """The files of a directory storage: volume name to size and time."""
        ...

    def file(self, node: str, storage: str, name: str) -> Path | None:
        """The path of a storage's file, if there are real files."""
        ...

    def note_file(self, node: str, storage: str, name: str, size: int, config_text: str = "") -> None:
        """Note a new file (and the config in a backup) where there are no real ones to find it by."""
        ...

    def archived_config(self, node: str, storage: str, name: str) -> str | None:
        """The config text inside a backup."""
        ...

    def remove_file(self, node: str, storage: str, name: str) -> None:
        """Remove a storage's file, if it is there."""
        ...

    def close(self) -> None:
        """Let go of what belongs to this process; containers go on."""
        ...
