"""The actions of a plan for a Proxmox node: each is one change, as data. And how a planner refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId
from paddock.places.proxmox.node.observation import Mount
from paddock.plan.actions import PlaceAction, Ref
from paddock.plan.step import Refusal

STATE_VOLUME: Final = Ref("state volume")
CACHE_VOLUME: Final = Ref("cache volume")
TEMPLATE: Final = Ref("template")
ADDRESS: Final = Ref("address")
REACHED: Final = Ref("reached machine")  # its number
HOST_KEY: Final = Ref("host key")
REACHED_NAME: Final = Ref("name of the reached machine")  # in messages
SPARE_VOLUME: Final = Ref("restored volume")

MOUNT_KEY: Final = "mp0"  # the key of the state in a machine, and of the first volume of a new pet

Params = Mapping[str, str | int]


@frozen
class DownloadBase(PlaceAction):
    """Let the node download the base archive and verify its checksum."""

    storage: str
    params: Params


@frozen
class CreatePet(PlaceAction):
    """Create the protected container that owns the state volume. Sets ``STATE_VOLUME``."""

    vmid: int
    params: Params
    agent_to_note: str | None = None  # the agent in whose part of the file the number should be written


@frozen
class AddVolume(PlaceAction):
    """Add a state volume to a pet, which is unprotected meanwhile. Sets ``STATE_VOLUME``."""

    vmid: int
    key: str
    value: str


@frozen
class AddCache(PlaceAction):
    """Add a cache volume to a pet. Sets ``CACHE_VOLUME``."""

    vmid: int
    key: str
    value: str


@frozen
class AttachCache(PlaceAction):
    """Mount the pet's cache volume in a stopped machine."""

    vmid: int
    key: str
    volume: str | Ref
    mount: str


@frozen
class IncludeVolume(PlaceAction):
    """Include a pet's volume in the backups that Proxmox makes of the pet, or leave it out of them."""

    vmid: int
    key: str
    backup: bool


@frozen
class GrowVolume(PlaceAction):
    """Grow a pet's volume while no container has it mounted, so that its filesystem grows too."""

    vmid: int
    key: str
    size: str


@frozen
class AdoptPet(PlaceAction):
    """Make the owner of a volume its pet: mark the container, name the agent in the mount path, protect it."""

    vmid: int
    agent: AgentId
    key: str
    value: str


@frozen
class Reassign(PlaceAction):
    """Move a volume from its container to a pet, with a mount path that names the agent."""

    source: int
    key: str
    value: str
    pet: int
    target: str
    agent: AgentId


@frozen
class AdoptMachine(PlaceAction):
    """Add the mark of an agent's machine to a container's notes, below the existing text."""

    vmid: int
    agent: AgentId


@frozen
class RenamePet(PlaceAction):
    """Give the volumes of an agent on its pet the mount paths of another id. The volumes themselves stay."""

    vmid: int
    former: AgentId
    agent: AgentId
    volumes: Params  # the mount points with their new values


@frozen
class RenameMachine(PlaceAction):
    """Write another id of the agent into the mark of its machine."""

    vmid: int
    former: AgentId
    agent: AgentId


@frozen
class DeleteVolume(PlaceAction):
    """Delete a pet's volume. The pet's mark names the volume until it is deleted."""

    vmid: int
    agent: AgentId
    volume: str


@frozen
class DestroyPet(PlaceAction):
    """Delete the volumes of a pet's only agent one by one, then the pet with its root disk.

    Proxmox itself deletes the root disk first. If it then failed on a volume, the pet would be left broken.
    """

    vmid: int
    agent: AgentId
    volumes: tuple[str, ...]


@frozen
class SettlePet(PlaceAction):
    """Finish a pet that an interrupted run created."""

    vmid: int


@frozen
class RemovePet(PlaceAction):
    """Remove a pet that an interrupted run created and that was never used."""

    vmid: int
    agent: AgentId


@frozen
class CreateCattle(PlaceAction):
    """Create the machine from the base archive. It gets the state if no other run has created one too."""

    vmid: int
    params: Params
    volume: str | Ref
    mount: str


@frozen
class CloneCattle(PlaceAction):
    """Clone the machine from a template; then, if no other run has created one too, configure it in one PUT."""

    vmid: int
    template: int | Ref
    clone: Params
    params: Params
    volume: str | Ref
    mount: str


@frozen
class Configure(PlaceAction):
    """Change keys of a container's configuration."""

    vmid: int
    params: Params


@frozen
class Attach(PlaceAction):
    """Mount the state in an existing machine."""

    vmid: int
    key: str
    volume: str | Ref
    mount: str


@frozen
class Describe(PlaceAction):
    """Write a text above the mark in a machine's notes."""

    vmid: int
    text: str


@frozen
class Release(PlaceAction):
    """Remove a claim that this run or an ended one has left on a container."""

    vmid: int


@frozen
class GrowDisk(PlaceAction):
    """Grow a machine's root disk."""

    vmid: int
    size: str


@frozen
class Bind:
    """A directory of the node to mount in a machine."""

    key: str
    host: str
    path: str
    read_only: bool

    def __str__(self) -> str:
        return f"{self.host},mp={self.path}" + (",ro=1" if self.read_only else "")

    def matches(self, mount: Mount) -> bool:
        """Whether a mount has the same directory, path and mode; its key does not matter."""
        return (mount.volume.rstrip("/"), mount.path, mount.read_only) == (self.host, self.path, self.read_only)


@frozen
class RootWork(PlaceAction):
    """Changes that Proxmox allows only to root: bind mounts, and features beyond nesting. Waits until they are made."""

    vmid: int
    owner: str  # uid and gid of the agent on the node
    binds: tuple[Bind, ...] = ()
    features: str = ""  # the complete value in Proxmox's format; empty when no feature needs root
    template: int | None = None  # this template gets the same features, so that its clones have them


@frozen
class Start(PlaceAction):
    vmid: int


@frozen
class Reboot(PlaceAction):
    vmid: int
    seconds: int


@frozen
class Reach(PlaceAction):
    """Wait for the machine's address and ssh; record a new machine's host key in its notes."""

    vmid: int
    clone: bool = False  # the machine still has its template's host key: replace it over the first connection


@frozen
class ReachAdopted(PlaceAction):
    """Reach a machine that Paddock did not create. The file may name its host key."""

    vmid: int
    host_key: str | None


@frozen
class Shutdown(PlaceAction):
    """Shut the machine down; stop it by force after a timeout."""

    vmid: int
    seconds: int


@frozen
class StopToAdopt(Shutdown):
    """Shut a container down that is being adopted, and record in its notes that it ran."""


@frozen
class Detach(PlaceAction):
    """Remove foreign volumes from the configuration, with the unused entries that Proxmox leaves."""

    vmid: int


@frozen
class Destroy(PlaceAction):
    """Delete a machine or a builder, after checking that it owns only its root disk."""

    vmid: int


@frozen
class CreateBuilder(PlaceAction):
    """Create the container that becomes a template."""

    vmid: int
    params: Params


@frozen
class Seal(PlaceAction):
    """Stop a builder and convert it to a template. Sets ``TEMPLATE``."""

    vmid: int


@frozen
class BackUpPet(PlaceAction):
    """Save the pet to a storage with vzdump, and prove that the archive has the agent's state.

    The archive does not count until ``ConfirmBackup``.
    """

    vmid: int
    storage: str
    agent: AgentId
    about: Mapping[str, str]  # agent, kind and version, for the notes of the archive


@frozen
class ConfirmBackup(PlaceAction):
    """Let the archive count that this run has made."""

    vmid: int
    storage: str
    agent: AgentId


@frozen
class RestoreSpare(PlaceAction):
    """Restore an archive to a number of its own, which never runs. Sets ``SPARE_VOLUME``."""

    vmid: int
    owner: int  # the pet that the archive is of
    agent: AgentId
    params: Params


@frozen
class CloneReader(PlaceAction):
    """Clone a throwaway machine that mounts the restored volume."""

    vmid: int
    template: int | Ref
    clone: Params
    params: Params
    volume: Ref
    mount: str


@frozen
class DestroySpare(PlaceAction):
    """Delete a restored archive, after checking that it owns all its volumes and that nobody else uses them."""

    vmid: int
    agent: AgentId


ProxmoxAction = (
    DownloadBase
    | CreatePet
    | AddVolume
    | AddCache
    | AttachCache
    | GrowVolume
    | IncludeVolume
    | AdoptPet
    | Reassign
    | AdoptMachine
    | RenamePet
    | RenameMachine
    | DeleteVolume
    | DestroyPet
    | SettlePet
    | RemovePet
    | CreateCattle
    | CloneCattle
    | Configure
    | Attach
    | Describe
    | Release
    | GrowDisk
    | RootWork
    | Start
    | Reboot
    | Reach
    | ReachAdopted
    | Shutdown
    | Detach
    | Destroy
    | CreateBuilder
    | Seal
    | BackUpPet
    | ConfirmBackup
    | RestoreSpare
    | CloneReader
    | DestroySpare
)


class CannotPlan(Exception):
    """A refusal that ends the planning: the plan holds this refusal and no steps."""

    def __init__(self, reason: str, hint: str | None = None, *, code: str) -> None:
        super().__init__(reason)
        self.refusal = Refusal(reason, hint, code=code)
