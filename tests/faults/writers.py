"""Writers inside a volume: each machine that has it mounted writes its own name there, and sees the names of others."""

from __future__ import annotations

from collections.abc import Iterable

from places.node import Node
from pvebox.runtime.contract import VolumeRef


def intruders(journal: Iterable[str]) -> list[str]:
    """Return the writers that wrote again after another one had begun: both wrote at the same time."""
    found: list[str] = []
    ended: set[str] = set()
    last = ""
    for writer in journal:
        if writer != last:
            if writer in ended:
                found.append(writer)
            ended.add(last)
            last = writer
    return found


class Writers:
    """The agents on the machines of a simulated node. Each writes a line whenever the node gets a request."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.journals: dict[VolumeRef, list[str]] = {}

    def write(self) -> None:
        """Let every running agent write into its state."""
        for vmid, (pid, _, mounts) in list(self._node.machines._running.items()):
            for mount in mounts:
                if mount.key != "rootfs" and isinstance(mount.source, VolumeRef):
                    self.journals.setdefault(mount.source, []).append(f"machine {vmid}, process {pid}")

    @property
    def lines(self) -> int:
        return sum(map(len, self.journals.values()))

    @property
    def intruders(self) -> list[str]:
        """The writers that found another one in their volume."""
        return [writer for journal in self.journals.values() for writer in intruders(journal)]
