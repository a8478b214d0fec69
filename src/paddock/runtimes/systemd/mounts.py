"""The directories of the machine that the agent sees too, in the words of a unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paddock.spec.machine import MountSpec


@dataclass(frozen=True)
class Mounts:
    """Where they are and how the agent sees them; a machine that was made for it has them mounted."""

    mounts: Sequence[MountSpec]
    mounted: bool

    @property
    def conditions(self) -> str:
        """What is written where nothing is mounted would be lost with the machine."""
        return "".join(f"AssertPathIsMountPoint={mount.path}\n" for mount in self.mounts if self.mounted)

    @property
    def service(self) -> str:
        """What the agent sees of them."""
        return "".join(map(_line, self.mounts))


def _line(mount: MountSpec) -> str:
    if mount.host == mount.path:
        return f"Read{'Only' if mount.read_only else 'Write'}Paths={mount.path}\n"
    return f"Bind{'ReadOnly' if mount.read_only else ''}Paths={mount.host}:{mount.path}\n"
