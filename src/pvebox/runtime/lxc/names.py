"""Names and paths of a sandbox on the host. They depend on the state directory, so sandboxes do not collide."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pvebox.api.errors import SandboxError
from pvebox.runtime.confined import path_below
from pvebox.runtime.contract import Sharing, VolumeRef

FIRST_ID: Final = 100_000
ID_COUNT: Final = 65_536
RUN: Final = Path("/run/pvebox")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Names:
    """The names and paths of one sandbox, derived from its state directory."""

    state: Path
    sharing: Sharing = field(default_factory=Sharing)

    def __post_init__(self) -> None:
        # These characters have a special meaning in mount options and LXC configs.
        if any(character in str(self.state) for character in " ,:\\\t\n"):
            raise SandboxError(
                f"The state directory {self.state} has a blank, comma, colon or backslash in its name.",
                hint="Choose another directory with --state.",
            )

    @property
    def short_id(self) -> str:
        """Six hexadecimal digits that identify the state directory."""
        return hashlib.sha256(str(self.state).encode()).hexdigest()[:6]

    @property
    def bridge(self) -> str:
        """The name of the bridge on the host."""
        return f"pvb{self.short_id}"

    @property
    def rule_comment(self) -> str:
        """The comment of the sandbox's firewall rules."""
        return f"pvebox-{self.short_id}"

    def container(self, vmid: int) -> str:
        """Return the LXC name of a container."""
        return f"pvb{self.short_id}-{vmid}"

    def veth(self, vmid: int, index: int) -> str:
        """Return the name of the host's end of a container's network interface, at most 15 characters."""
        number, short = vmid, ""
        while number:
            number, digit = divmod(number, 36)
            short = _DIGITS[digit] + short
        return f"p{self.short_id}{short}{_DIGITS[index]}"

    @property
    def lxc_path(self) -> Path:
        """The directory of the LXC configs."""
        return self.run / "lxc"

    @property
    def run(self) -> Path:
        """The directory of mounts and LXC configs, which exists only while the sandbox is up.

        The containers' root must be able to enter it, so it cannot be in a private home directory.
        """
        return RUN / self.short_id

    def make_run(self) -> None:
        """Create the directory `run`, accessible to root and to the containers' root only."""
        RUN.mkdir(exist_ok=True)
        RUN.chmod(0o711)
        self.run.mkdir(exist_ok=True, mode=0o710)
        os.chown(self.run, 0, FIRST_ID)
        self.run.chmod(0o710)

    @property
    def mounts(self) -> Path:
        """The directory of all mount points."""
        return self.run / "mnt"

    def image(self, ref: VolumeRef) -> Path:
        """Return the image file of a volume."""
        return path_below(self.state / "volumes", ref.node, ref.storage, f"{ref.name}.img")

    def mount_point(self, ref: VolumeRef) -> Path:
        """Return the mount point of a volume."""
        return path_below(self.mounts, ref.node, ref.storage, ref.name)

    def layer(self, ref: VolumeRef) -> Path:
        """Return the mount point of the image that stores only the changes to a base volume."""
        return path_below(self.mounts / ".layer", f"{ref.node}-{ref.storage}-{ref.name}")

    def volumes(self, node: str, storage: str) -> Path:
        """Return the directory of a storage's image files."""
        return path_below(self.state / "volumes", self.sharing.home(node, storage), storage)

    def files(self, node: str, storage: str) -> Path:
        """Return the directory of a storage's templates and backups."""
        return path_below(self.state / "files", self.sharing.home(node, storage), storage)

    def file(self, node: str, storage: str, name: str) -> Path:
        """Return the path of a storage's template or backup."""
        return path_below(self.files(node, storage), name)

    @property
    def hosts(self) -> Path:
        """The directory of the nodes' own filesystems."""
        return self.state / "host"
