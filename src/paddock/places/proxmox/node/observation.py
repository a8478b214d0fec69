"""The observation of a node: its containers, their volumes and marks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from typing import Any, Final

from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId
from paddock.file.models.quantities import Size
from paddock.places.contract import PlaceSeen
from paddock.places.proxmox.node.notes import Claim, Mark, Role

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_VOLUME_KEY: Final = re.compile(r"rootfs|mp\d+|unused\d+")
_OWNER: Final = re.compile(r"[^:]+:(?:.*/)?(?:vm|base|subvol|basevol)-(\d+)-")


def options_of(text: str) -> dict[str, str]:
    """Read ``name=value,name=value``, as Proxmox writes features and network cards."""
    return dict(word.partition("=")[::2] for word in text.split(",") if word)


def free_keys(taken: Collection[str]) -> Iterator[str]:
    """Yield the keys for mount points that are not taken, in order."""
    return (key for key in (f"mp{number}" for number in range(256)) if key not in taken)


@frozen
class Mount:
    """A volume as a container's configuration names it."""

    key: str  # rootfs, mp0, unused0
    volume: str
    path: str | None
    size: Size | None
    options: Mapping[str, str] = field(default_factory=dict, compare=False)  # all options as written

    @classmethod
    def from_config(cls, key: str, text: str) -> Mount:
        """Read a mount from its configuration value: ``local-lvm:vm-999-disk-1,mp=/path,size=8G``."""
        words = text.split(",")
        options = dict(word.split("=", 1) for word in words if "=" in word)
        size = options.get("size")
        return cls(
            key=key,
            volume=options.get("volume") or words[0],
            path=options.get("mp"),
            size=Size.parse(size) if size else None,
            options=options,
        )

    def mounted_at(self, path: str) -> str:
        """Return the value that mounts the same volume at another path; Proxmox adds its size."""
        return self._with(mp=path)

    def adopted_at(self, path: str, *, backup: bool, decided: bool) -> str:
        """Return the value that mounts an adopted volume at a path. Its own ``backup`` stays unless ``decided``."""
        own = self.options.get("backup")
        return self._with(mp=path, backup=str(int(backup)) if decided or own is None else own)

    def included(self, *, backup: bool) -> str:
        """Return the value that includes the volume in backups of its container, or excludes it."""
        return self._with(backup=str(int(backup)))

    def _with(self, **changes: str) -> str:
        """Return the value with other options, without the size, which Proxmox adds."""
        options = {"mp": "", **self.options, **changes}
        kept = (f"{name}={value}" for name, value in options.items() if name not in ("volume", "size"))
        return ",".join((self.volume, *kept))

    @property
    def storage(self) -> str:
        """The storage that the volume is on."""
        return self.volume.partition(":")[0]

    @property
    def read_only(self) -> bool:
        return self.options.get("ro") == "1"

    @property
    def is_bind(self) -> bool:
        """Whether the mount is a directory of the node, which no container owns."""
        return self.volume.startswith("/") and not self.volume.startswith("/dev/")

    @property
    def owner(self) -> int | None:
        """The container that owns the volume, from the volume's name. None for bind mounts and devices."""
        match = _OWNER.match(self.volume)
        return int(match[1]) if match else None


class Pool(Enum):
    """Which of Paddock's pools a container is in. A mark counts only in the pool for its role.

    Everyone who may edit a container's notes can write a mark, but only root and Paddock put containers into the pools.
    """

    ANY = "any"  # the file uses no pools: every mark counts
    MACHINES = "machines"
    STATE = "state"
    OUTSIDE = "outside"

    def trusts(self, role: Role) -> bool:
        """Whether a mark of that role counts here."""
        return self is Pool.ANY or self is (Pool.STATE if role is Role.PET else Pool.MACHINES)


@frozen
class LxcContainer:
    """One LXC container of the node, as observed."""

    vmid: int
    status: str
    config: Mapping[str, Any]
    address: str | None = None
    pending: frozenset[str] = frozenset()  # keys whose new value waits for a restart
    uptime: int = 0
    pool: Pool = Pool.ANY
    ha: str | None = None  # the state of its HA service, empty if that is unknown; None: HA does not manage it

    @cached_property
    def mark(self) -> Mark | None:
        """The mark, if it counts."""
        return self.noted_mark if self.noted_mark and self.pool.trusts(self.noted_mark.role) else None

    @cached_property
    def noted_mark(self) -> Mark | None:
        """The mark in the notes, which anyone who may edit the notes may have written."""
        return Mark.from_notes(self.notes)

    @cached_property
    def newer_mark(self) -> Mapping[str, str] | None:
        """The words of its mark, if a newer Paddock wrote it."""
        return Mark.of_newer_version(self.notes)

    @property
    def notes(self) -> str:
        return str(self.config.get("description", ""))

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def ha_is_busy(self) -> bool:
        """Whether HA is about to start, stop or move the container. Its tasks end before it begins."""
        return self.ha is not None and (
            self.ha.startswith("request_") or self.ha in ("migrate", "relocate", "recovery")
        )

    @property
    def lock(self) -> str | None:
        lock = self.config.get("lock")
        return str(lock) if lock else None

    @property
    def name(self) -> str:
        return f"container {self.vmid} ({self.config.get('hostname', '?')})"

    @cached_property
    def mounts(self) -> Sequence[Mount]:
        """Its volumes and bind mounts, by their keys."""
        found = sorted((key, str(value)) for key, value in self.config.items() if _VOLUME_KEY.fullmatch(key))
        return [Mount.from_config(key, value) for key, value in found]

    @property
    def is_template(self) -> bool:
        return self.flag("template")

    def has(self, role: Role) -> bool:
        """Whether the container has a mark of that role."""
        return self.mark is not None and self.mark.role is role

    @property
    def unsettled(self) -> bool:
        """Whether a run is creating the container, or was interrupted while it did."""
        return self.mark is not None and self.mark.new is not None

    def mount_at(self, path: str) -> Mount | None:
        """Return the container's own volume with that mount path."""
        return next((m for m in self.mounts if m.path == path and m.owner == self.vmid), None)

    def mount(self, key: str) -> Mount | None:
        """Return the volume at a key."""
        return next((m for m in self.mounts if m.key == key), None)

    @property
    def tags(self) -> frozenset[str]:
        return frozenset(str(self.config.get("tags", "")).split(";")) - {""}

    @property
    def tagged(self) -> str:
        """The container's tags and Paddock's own, in Proxmox's format."""
        return ";".join(sorted({"paddock", *self.tags}))

    @property
    def free_key(self) -> str:
        """The first key that no volume has."""
        return next(free_keys({mount.key for mount in self.mounts}))

    def flag(self, key: str) -> bool:
        return int(self.config.get(key, 0)) == 1

    def number(self, key: str) -> int | None:
        value = self.config.get(key)
        return None if value is None else int(value)


@frozen
class Capacity:
    """Memory, free space and networks of a node, as far as the token may see them."""

    memory: int | None = None  # bytes of the node
    storages: Mapping[str, int] = field(default_factory=dict)  # bytes free on each
    networks: Mapping[str, str] = field(default_factory=dict)  # the node's address with its prefix, by bridge
    types: Mapping[str, str] = field(default_factory=dict)  # of the storages


@frozen
class Listed:
    """A container or virtual machine of any node in the list of the cluster."""

    node: str
    name: str | None = None  # None while its node reports no figures
    tags: frozenset[str] = frozenset()
    is_container: bool = True
    ha: str | None = None  # the state of its HA service


@frozen
class Unreachable:
    """A container of Paddock that exists on a node that cannot be asked."""

    node: str
    why: str  # which is offline, which does not answer
    pool: Pool

    @property
    def in_words(self) -> str:
        return f"on node {self.node}, {self.why}"

    @property
    def hint(self) -> str:
        return f"start node {self.node} first: only that node can show whose it is, and which volumes it has"


@frozen
class Hidden:
    """Containers and pools that could not be read. Each may be an agent's machine or state."""

    pools: tuple[str, ...] = ()  # pools whose members the token may not list
    members: Mapping[int, str] = field(default_factory=dict)  # containers in pools, with the name of the pool
    unreachable: Mapping[int, Unreachable] = field(default_factory=dict)

    def unreachable_as(self, role: Role) -> list[int]:
        """Return the containers on nodes that cannot be asked, and that may have this role."""
        return sorted(vmid for vmid, each in self.unreachable.items() if each.pool.trusts(role))


@frozen
class ProxmoxSeen(PlaceSeen):
    """The observation of a node at one moment."""

    containers: Mapping[int, LxcContainer]
    taken: frozenset[int]  # every vmid of the cluster, containers of other nodes and virtual machines too
    capacity: Capacity = Capacity()
    base_missing: bool = False  # the base archive must be downloaded first
    storages: Mapping[str, str] = field(default_factory=dict)  # directory of each storage
    holder: str = ""  # the run that observed
    now: datetime = _LONG_AGO  # time on the node at the observation
    node: str = ""  # the node that was observed
    nodes: int = 1  # of the cluster
    cluster: Mapping[int, Listed] = field(default_factory=dict)  # by the numbers of all nodes that the token may see
    on_other_nodes: Mapping[int, tuple[str, LxcContainer]] = field(default_factory=dict)  # of Paddock, with the node
    hidden: Hidden = Hidden()
    local: frozenset[str] = frozenset()  # storages whose volumes only their own node sees
    unseen: frozenset[int] = frozenset()  # numbers among ``taken`` that something invisible has
    ended: frozenset[str] = frozenset()  # runs of this computer that have claims and have ended

    def claim_of_another(self, container: LxcContainer) -> Claim | None:
        """Return the claim of another run on the container, while it excludes this run."""
        claim = Claim.from_notes(container.notes)
        return claim if claim and claim.blocks(self.holder, self.now, self.ended.__contains__) else None

    def abandoned_claim(self, container: LxcContainer) -> Claim | None:
        """Return a claim that nobody needs any more, and that still excludes runs on other computers."""
        claim = Claim.from_notes(container.notes)
        return claim if claim and self.now < claim.until and self.claim_of_another(container) is None else None

    def with_role(self, role: Role) -> list[LxcContainer]:
        """Return the containers with a mark of that role."""
        return self._numbered(self._index.roles.get(role, ()))

    def cattle_of(self, agent: AgentId) -> list[LxcContainer]:
        """Return the containers that are marked as this agent's machine."""
        return [c for c in self.machines_of(agent) if not c.unsettled]

    def machines_of(self, agent: AgentId) -> list[LxcContainer]:
        """Return this agent's machines, also unfinished ones."""
        return self._numbered(self._index.machines.get(agent, ()))

    def owners_of(self, path: str) -> list[LxcContainer]:
        """Return the pets that have a volume of their own with that mount path."""
        return self._numbered(self._index.pets.get(path, ()))

    def users_of(self, volume: str) -> list[LxcContainer]:
        """Return every container whose configuration names the volume."""
        return self._numbered(self._index.users.get(volume, ()))

    def forgetting(self, agent: AgentId) -> LxcContainer | None:
        """Return the pet with an unfinished `forget` of the agent."""
        return self.containers.get(self._index.forgetting.get(agent, 0))

    @property
    def outside(self) -> Sequence[LxcContainer]:
        """The containers with a mark that does not count, because they are in no pool for it."""
        return self._numbered(self._index.outside)

    def may_be_under_ha(self, vmid: int) -> bool:
        """Whether HA may manage a container: in a cluster, or because the list of its node says so."""
        return self.nodes > 1 or (vmid in self.cluster and self.cluster[vmid].ha is not None)

    def where(self, vmid: int) -> str | None:
        """Return in words on which other node a container of Paddock is; None if it is not on another one."""
        if (unreachable := self.hidden.unreachable.get(vmid)) is not None:
            return unreachable.in_words
        return f"on node {self.on_other_nodes[vmid][0]}" if vmid in self.on_other_nodes else None

    def _numbered(self, numbers: Iterable[int]) -> list[LxcContainer]:
        return [self.containers[number] for number in numbers]

    @cached_property
    def _index(self) -> Index:
        return Index(self.containers.values())

    def completed(self, containers: Iterable[LxcContainer]) -> ProxmoxSeen:
        """Return the observation with more about some of its containers, whose marks and volumes are the same."""
        found = replace(self, containers={**self.containers, **{each.vmid: each for each in containers}})
        found.__dict__["_index"] = self._index  # where the cached property looks for it
        return found

    def without(self, gone: Iterable[LxcContainer]) -> ProxmoxSeen:
        """Return the observation as if these containers and their root disks were deleted."""
        numbers = {container.vmid for container in gone}
        if not numbers:
            return self
        free = dict(self.capacity.storages)
        for root in (self.containers[vmid].mount("rootfs") for vmid in numbers):
            if root and root.size and root.storage in free:
                free[root.storage] += root.size
        left = {vmid: container for vmid, container in self.containers.items() if vmid not in numbers}
        return replace(
            self, containers=left, taken=self.taken - numbers, capacity=replace(self.capacity, storages=free)
        )


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
