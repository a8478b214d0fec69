"""The containers of an observation by what they are searched for, so that n agents do not search n² containers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from paddock.places.proxmox.mark import Role
from paddock.spec.agent_id import AgentId

if TYPE_CHECKING:
    from paddock.places.proxmox.seen import LxcContainer


class Index:
    """Numbers of containers, each list in the order of the observation."""

    def __init__(self, containers: Iterable[LxcContainer]) -> None:
        self.roles: dict[Role, list[int]] = {}
        self.machines: dict[AgentId | None, list[int]] = {}
        self.pets: dict[str | None, list[int]] = {}  # by the mount paths of their own volumes
        self.users: dict[str, list[int]] = {}  # by the volumes that their configurations name
        self.forgetting: dict[AgentId, int] = {}
        self.outside: list[int] = []  # those whose marks do not count
        for container in containers:
            self._add(container)

    def _add(self, container: LxcContainer) -> None:
        for volume in dict.fromkeys(mount.volume for mount in container.mounts):
            self.users.setdefault(volume, []).append(container.vmid)
        mark = container.mark
        if mark is None:
            self.outside += [container.vmid] if container.noted_mark else []
            return
        self.roles.setdefault(mark.role, []).append(container.vmid)
        if mark.role is Role.CATTLE:
            self.machines.setdefault(mark.agent, []).append(container.vmid)
        elif mark.role is Role.PET:
            own = (mount.path for mount in container.mounts if mount.owner == container.vmid)
            for path in dict.fromkeys(own):
                self.pets.setdefault(path, []).append(container.vmid)
            if forgotten := mark.unfinished_forget:
                self.forgetting.setdefault(forgotten[0], container.vmid)
