"""What a node shows: its containers, their volumes and marks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from paddock.places.proxmox.mark import Mark, Role
from paddock.spec.sizes import Size

_VOLUME_KEY: Final = re.compile(r"rootfs|mp\d+|unused\d+")
_OWNER: Final = re.compile(r"[^:]+:(?:.*/)?(?:vm|base|subvol|basevol)-(\d+)-")


@dataclass(frozen=True)
class Mount:
    """A volume as a container's configuration names it."""

    key: str  # rootfs, mp0, unused0
    volume: str
    path: str | None
    size: Size | None

    @classmethod
    def from_config(cls, key: str, text: str) -> Mount:
        """Read ``local-lvm:vm-999-disk-1,mp=/path,size=8G``."""
        words = text.split(",")
        options = dict(word.split("=", 1) for word in words if "=" in word)
        size = options.get("size")
        return cls(
            key=key,
            volume=options.get("volume") or words[0],
            path=options.get("mp"),
            size=Size.parse(size) if size else None,
        )

    @property
    def owner(self) -> int | None:
        """The container a volume belongs to: Proxmox goes by its name. None for bind mounts and devices."""
        match = _OWNER.match(self.volume)
        return int(match[1]) if match else None


@dataclass(frozen=True)
class Container:
    """One container of the node."""

    vmid: int
    status: str
    config: Mapping[str, Any]
    address: str | None = None

    @cached_property
    def mark(self) -> Mark | None:
        return Mark.from_notes(self.notes)

    @property
    def notes(self) -> str:
        return str(self.config.get("description", ""))

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def lock(self) -> str | None:
        lock = self.config.get("lock")
        return str(lock) if lock else None

    @property
    def name(self) -> str:
        return f"container {self.vmid} ({self.config.get('hostname', '?')})"

    @property
    def mounts(self) -> Iterator[Mount]:
        for key, value in sorted(self.config.items()):
            if _VOLUME_KEY.fullmatch(key):
                yield Mount.from_config(key, str(value))

    def flag(self, key: str) -> bool:
        return int(self.config.get(key, 0)) == 1

    def number(self, key: str) -> int | None:
        value = self.config.get(key)
        return None if value is None else int(value)


@dataclass(frozen=True)
class ProxmoxSeen:
    """The node at one moment."""

    containers: Mapping[int, Container]
    taken: frozenset[int]  # every vmid of the cluster, containers of other nodes and virtual machines too

    def ours(self, agent: str, role: Role) -> list[Container]:
        """The containers that carry this agent's mark in that role."""
        return [c for c in self.containers.values() if c.mark and (c.mark.agent, c.mark.role) == (agent, role)]

    def users_of(self, volume: str) -> list[Container]:
        """Every container whose configuration names the volume."""
        return [c for c in self.containers.values() if any(mount.volume == volume for mount in c.mounts)]
