"""The interface of a runtime, which provides the volumes and containers behind the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pvebox.cluster.tasks import Task
from pvebox.guests.config import CtConfig

Say = Callable[..., None]
# The place of volumes and files that all nodes share. The name of a node cannot contain an underscore.
SHARED: Final = "_shared"


@dataclass(frozen=True)
class VolumeRef:
    """The node, storage and name of a volume. On a shared storage the node is `SHARED`."""

    node: str
    storage: str
    name: str


@dataclass(frozen=True)
class Volume:
    """An existing volume."""

    ref: VolumeRef
    size: int
    ctime: int
    formatted: bool = True


@dataclass
class Sharing:
    """Tells a runtime which storages are shared: all nodes see the same volumes and files there."""

    is_shared: Callable[[str], bool] = lambda storage: False

    def home(self, node: str, storage: str) -> str:
        """Return the place of a storage's volumes and files: the node, or one place for all nodes."""
        return SHARED if self.is_shared(storage) else node


class VolumeBusyError(Exception):
    """The volume cannot be removed or renamed, because a running container mounts it."""


class NotMountableError(Exception):
    """The volume cannot be mounted, because it has no filesystem."""


@dataclass(frozen=True)
class Mount:
    """A mount in a container: the source (a volume or a host path) and the target path."""

    key: str
    source: VolumeRef | Path
    path: str
    read_only: bool = False


@dataclass(frozen=True)
class ContainerSpec:
    """The data that a runtime needs to create or start a container."""

    vmid: int
    node: str
    config: CtConfig
    mounts: Sequence[Mount]


@dataclass(frozen=True)
class Archive:
    """A template archive: its volume id and, if it is a real file, its path."""

    volid: str
    path: Path | None
    # Whether tar's errors are ignored.
    lenient: bool = False


# The patterns of files that vzdump leaves out by default.
STANDARD_EXCLUDES: Final = ("/tmp/?*", "/var/tmp/?*", "/var/run/?*.pid")  # noqa: S108 - patterns, not files


@dataclass(frozen=True)
class ArchiveOrder:
    """The content and the target file of a backup.

    The mounts of `spec` are the included ones: volumes, or snapshots of them. Patterns in `exclude` that begin with a
    slash match from the container's root, others match anywhere. `shown_target` is the path that Proxmox shows.
    """

    spec: ContainerSpec
    target: Path | None
    shown_target: str
    config_text: str
    exclude: Sequence[str] = STANDARD_EXCLUDES


@dataclass(frozen=True)
class Unpacked:
    """Properties of an unpacked template."""

    systemd: int | None = None
    arch: str = "amd64"
    ostype: str = "debian"


@dataclass(frozen=True)
class Usage:
    """The current resource usage of a running container."""

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
    """The volumes of all storages. Sizes are in bytes."""

    def on(self, node: str, storage: str) -> list[Volume]:
        """Return the volumes of a storage, including snapshots."""
        ...

    def get(self, ref: VolumeRef) -> Volume | None:
        """Return the volume, or None if it does not exist."""
        ...

    def allocate(self, ref: VolumeRef, size: int) -> None:
        """Create an empty volume without a filesystem."""
        ...

    def format(self, ref: VolumeRef) -> None:
        """Create an empty filesystem on a volume, owned by the containers' root."""
        ...

    def remove(self, ref: VolumeRef) -> None:
        """Destroy a volume. Raise if it is mounted."""
        ...

    def rename(self, ref: VolumeRef, name: str) -> None:
        """Rename a volume on its storage."""
        ...

    def resize(self, ref: VolumeRef, size: int, say: Say, *, online: bool) -> None:
        """Grow a volume and, if possible, its filesystem."""
        ...

    def mounted(self, ref: VolumeRef) -> bool:
        """Return whether a running container mounts the volume."""
        ...

    def copy(self, source: VolumeRef, target: VolumeRef, *, fresh: bool = False) -> None:
        """Create a volume with a copy of another volume's current content, as a snapshot or a rollback does.

        The copy of a mounted volume says that it is mounted. With `fresh` it does not: Proxmox copies only the files
        of a volume that it clones or moves, into a new filesystem.
        """
        ...

    def link(self, base: VolumeRef, target: VolumeRef) -> None:
        """Create a volume that shares the content of a base volume and stores only the changes."""
        ...


class Containers(Protocol):
    """The containers of all nodes, by VMID."""

    def running(self, vmid: int) -> bool:
        """Return whether a container runs."""
        ...

    def populate(self, spec: ContainerSpec, archive: Archive, task: Task) -> Unpacked:
        """Unpack a template archive over a container's mounts."""
        ...

    def prepare(self, spec: ContainerSpec, password: str | None, ssh_keys: str | None, say: Say) -> None:
        """Write ssh host keys, name, network and accounts into a new container, and log the keys' fingerprints."""
        ...

    def settle_clone(self, spec: ContainerSpec) -> Unpacked:
        """Give a clone the parts of an identity that Proxmox gives it."""
        ...

    def start(self, spec: ContainerSpec) -> None:
        """Start a container and return when its init runs."""
        ...

    def stop(self, vmid: int) -> None:
        """Kill a container."""
        ...

    def crash(self, vmid: int) -> None:
        """Stop a container as a power cut does: changes that it has not written to its volumes are lost."""
        ...

    def shutdown(self, vmid: int, timeout: float) -> bool:
        """Ask a container to shut down; return whether it stopped within the timeout."""
        ...

    def frozen(self, vmid: int) -> AbstractContextManager[None]:
        """Freeze the processes of a running container and write its changes to disk, until the block ends."""
        ...

    def mount_live(self, vmid: int, mount: Mount) -> None:
        """Add a mount to a running container."""
        ...

    def limit_live(self, vmid: int, options: Mapping[str, object]) -> None:
        """Change the resource limits of a running container."""
        ...

    def execute(self, vmid: int, argv: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        """Run a program as root in a running container; return its exit code, output and error output."""
        ...

    def attach_command(self, vmid: int, argv: Sequence[str]) -> list[str] | None:
        """Return the command that runs a program in a running container with the caller's input and output, if any."""
        ...

    def push(self, spec: ContainerSpec, path: str, content: bytes, mode: int) -> None:
        """Write a file into a container."""
        ...

    def usage(self, vmid: int) -> Usage:
        """Return the resource usage of a running container."""
        ...

    def interfaces(self, vmid: int, config: CtConfig) -> list[Interface]:
        """Return the network interfaces of a running container."""
        ...

    def archive(self, order: ArchiveOrder, task: Task, say: Say) -> int:
        """Pack a container's mounts and its config into an archive file, and log tar's output; return its size."""
        ...


class Runtime(Protocol):
    """The volumes, containers, files and network of a cluster."""

    @property
    def sharing(self) -> Sharing:
        """The storages that all nodes share. The cluster chooses them."""
        ...

    @property
    def volumes(self) -> Volumes:
        """The volumes of all storages."""
        ...

    @property
    def containers(self) -> Containers:
        """The containers of all nodes."""
        ...

    def bridge_exists(self, node: str, bridge: str) -> bool:
        """Return whether the node has a bridge of this name."""
        ...

    def host_path(self, node: str, path: str) -> Path:
        """Return the real path that stands for a path of the node's filesystem."""
        ...

    def on_stop(self, hook: Callable[[int], None]) -> None:
        """Register a hook that is called after a container has stopped for any reason."""
        ...

    def files(self, node: str, storage: str) -> dict[str, tuple[int, int]]:
        """Return the templates, backups and files beside them on a directory storage: name to size and time."""
        ...

    def read_text(self, node: str, storage: str, name: str) -> str | None:
        """Return the text of a small file beside a backup: its notes, its log. None if there is no such file."""
        ...

    def write_text(self, node: str, storage: str, name: str, text: str) -> None:
        """Write a small file beside a backup."""
        ...

    def file(self, node: str, storage: str, name: str) -> Path | None:
        """Return the path of a storage's file, or None if the files are not real."""
        ...

    def note_file(self, node: str, storage: str, name: str, size: int, config_text: str = "") -> None:
        """Record a new file and, for a backup, the config in it. Only needed if the files are not real."""
        ...

    def archived_config(self, node: str, storage: str, name: str) -> str | None:
        """Return the text of the config in a backup, or None."""
        ...

    def remove_file(self, node: str, storage: str, name: str) -> None:
        """Remove a storage's file if it exists."""
        ...

    def close(self) -> None:
        """Release the resources of this process. Containers keep running."""
        ...
