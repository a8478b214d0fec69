"""The directories under ``mounts:`` as lines of a unit."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.frozen import frozen
from paddock.spec.machine import MountSpec


@frozen
class Mounts:
    """The mounts of an agent. ``mounted`` says that the machine was made for the agent and has them mounted."""

    mounts: Sequence[MountSpec]
    mounted: bool

    @property
    def conditions(self) -> str:
        """Return lines that require each mount: files written to an unmounted path are lost with the machine."""
        return "".join(f"AssertPathIsMountPoint={mount.path}\n" for mount in self.mounts if self.mounted)

    @property
    def service(self) -> str:
        """Return lines that show the directories to the agent."""
        return "".join(map(_line, self.mounts))


def _line(mount: MountSpec) -> str:
    if mount.host == mount.path:
        return f"Read{'Only' if mount.read_only else 'Write'}Paths={mount.path}\n"
    return f"Bind{'ReadOnly' if mount.read_only else ''}Paths={mount.host}:{mount.path}\n"
