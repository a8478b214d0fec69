"""What a sandbox calls its things on the host, so that several do not meet and each finds its own."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..confined import below
from ..errors import SandboxError
from ..runtime import VolumeRef

FIRST_ID: Final = 100_000
ID_COUNT: Final = 65_536
RUN: Final = Path("/run/paddock-sandbox")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Names:
    """Names and paths that all follow from the state directory."""

    state: Path

    def __post_init__(self) -> None:
        # These characters have a meaning in mount options and LXC configs.
        if any(character in str(self.state) for character in " ,:\\\t\n"):
            raise SandboxError(
                f"The state directory {self.state} has a blank, comma, colon or backslash in its name.",
                hint="Choose another with --state.",
            )

    @property
    def mark(self) -> str:
        """Six hex digits that stand for the state directory."""
        return hashlib.sha256(str(self.state).encode()).hexdigest()[:6]

    @property
    def bridge(self) -> str:
        """The host's bridge."""
        return f"pdk{self.mark}"

    @property
    def rule_comment(self) -> str:
        """The comment on this sandbox's firewall rules."""
        return f"paddock-sandbox-{self.mark}"

    def container(self, vmid: int) -> str:
        """A container's LXC name."""
        return f"pdk{self.mark}-{vmid}"

    def veth(self, vmid: int, index: int) -> str:
        """The host's end of a container's network interface; at most 15 characters."""
        number, short = vmid, ""
        while number:
            number, digit = divmod(number, 36)
            short = _DIGITS[digit] + short
        return f"p{self.mark}{short}{_DIGITS[index]}"

    @property
    def lxc_path(self) -> Path:
        """The directory LXC keeps its configs in."""
        return self.run / "lxc"

    @property
    def run(self) -> Path:
        """What is there only while containers run: their mounts and LXC's configs.

        Containers' root has to get through to it, so it cannot lie below somebody's private home.
        """
        return RUN / self.mark

    def make_run(self) -> None:
        """Make that directory, for root and for the containers' root; other users of the host do not get in."""
        RUN.mkdir(exist_ok=True)
        RUN.chmod(0o711)
        self.run.mkdir(exist_ok=True, mode=0o710)
        os.chown(self.run, 0, FIRST_ID)
        self.run.chmod(0o710)

    @property
    def mounts(self) -> Path:
        """The directory below which everything is mounted."""
        return self.run / "mnt"

    def image(self, ref: VolumeRef) -> Path:
        """A volume's image file."""
        return below(self.state / "volumes", ref.node, ref.storage, f"{ref.name}.img")

    def mount_point(self, ref: VolumeRef) -> Path:
        """Where a volume is mounted."""
        return below(self.mounts, ref.node, ref.storage, ref.name)

    def layer(self, ref: VolumeRef) -> Path:
        """Where the changes of a volume that shares a base's content are mounted."""
        return below(self.mounts / ".layer", f"{ref.node}-{ref.storage}-{ref.name}")

    def volumes(self, node: str, storage: str) -> Path:
        """The directory of a storage's image files."""
        return below(self.state / "volumes", node, storage)

    def files(self, node: str, storage: str) -> Path:
        """The directory of a storage's files."""
        return below(self.state / "files", node, storage)

    def file(self, node: str, storage: str, name: str) -> Path:
        """The path of a storage's file."""
        return below(self.files(node, storage), name)

    @property
    def hosts(self) -> Path:
        """The directory that holds the nodes' own filesystems."""
        return self.state / "host"

    def host_root(self, node: str) -> Path:
        """What a node shows as its own filesystem."""
        return below(self.hosts, node)
