"""The changes Paddock makes on a node, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paddock.places.proxmox.seen import Mount
from paddock.plan.actions import PlaceAction, Ref

STATE_VOLUME: Final = Ref("state volume")
CACHE_VOLUME: Final = Ref("cache volume")
TEMPLATE: Final = Ref("template")
ADDRESS: Final = Ref("address")
HOST_KEY: Final = Ref("host key")

MOUNT_KEY: Final = "mp0"  # where cattle mounts the state

Params = Mapping[str, str | int]


@dataclass(frozen=True)
class DownloadBase(PlaceAction):
    """Let the node fetch the archive that machines are made from, and check it."""

    storage: str
    params: Params


@dataclass(frozen=True)
class CreatePet(PlaceAction):
    """Create the protected container that owns the state volume; finds the volume's name."""

    vmid: int
    params: Params


@dataclass(frozen=True)
class AddVolume(PlaceAction):
    """Give a pet another volume: protection off, volume on, protection on, as Proxmox demands; finds its name."""

    vmid: int
    key: str
    value: str


@dataclass(frozen=True)
class AddCache(PlaceAction):
    """Give a pet a volume for what can be made again, in the same way; finds its name."""

    vmid: int
    key: str
    value: str


@dataclass(frozen=True)
class AttachCache(PlaceAction):
    """Mount the pet's cache in a machine that does not run."""

    vmid: int
    key: str
    volume: str | Ref
    mount: str


@dataclass(frozen=True)
class GrowVolume(PlaceAction):
    """Make a pet's volume larger while nothing has it mounted, so that its filesystem grows too."""

    vmid: int
    key: str
    size: str


@dataclass(frozen=True)
class AdoptPet(PlaceAction):
    """Make a container that owns an agent's volume its pet: mark it, say whose the volume is, protect it."""

    vmid: int
    agent: str
    key: str
    value: str


@dataclass(frozen=True)
class Reassign(PlaceAction):
    """Give a container's volume to a pet. Its path goes with it and says whose it is from the moment it arrives."""

    source: int
    key: str
    value: str
    pet: int
    target: str
    agent: str


@dataclass(frozen=True)
class AdoptMachine(PlaceAction):
    """Put the mark of an agent's machine into a container's notes, below what is there."""

    vmid: int
    agent: str


@dataclass(frozen=True)
class DeleteVolume(PlaceAction):
    """Free a pet's volume, and what is on it; the pet's mark tells of it until it is done."""

    vmid: int
    agent: str
    volume: str


@dataclass(frozen=True)
class DestroyPet(PlaceAction):
    """Free the volumes of a pet's only agent, one by one, and then delete the pet with its root disk.

    Proxmox itself deletes the root disk first: a volume that it then cannot delete would be left in a broken pet.
    """

    vmid: int
    agent: str
    volumes: tuple[str, ...]


@dataclass(frozen=True)
class CreateCattle(PlaceAction):
    """Create the machine from the base archive, with the state volume in the same call."""

    vmid: int
    params: Params
    volume: str | Ref
    mount: str


@dataclass(frozen=True)
class CloneCattle(PlaceAction):
    """Clone the machine from a template, then give it the state and all the rest in one PUT."""

    vmid: int
    template: int | Ref
    clone: Params
    params: Params
    volume: str | Ref
    mount: str


@dataclass(frozen=True)
class Configure(PlaceAction):
    """Change keys of a container's configuration."""

    vmid: int
    params: Params


@dataclass(frozen=True)
class Attach(PlaceAction):
    """Mount the state in a machine that is there."""

    vmid: int
    key: str
    volume: str | Ref
    mount: str


@dataclass(frozen=True)
class Describe(PlaceAction):
    """Write a text above the mark in a machine's notes."""

    vmid: int
    text: str


@dataclass(frozen=True)
class GrowDisk(PlaceAction):
    """Make a machine's own root disk larger."""

    vmid: int
    size: str


@dataclass(frozen=True)
class Bind:
    """A directory of the node that a machine is to have."""

    key: str
    host: str
    path: str
    read_only: bool

    def __str__(self) -> str:
        return f"{self.host},mp={self.path}" + (",ro=1" if self.read_only else "")

    def matches(self, mount: Mount) -> bool:
        """Whether a mount is this one, at whatever key."""
        return (mount.volume.rstrip("/"), mount.path, mount.read_only) == (self.host, self.path, self.read_only)


@dataclass(frozen=True)
class RootWork(PlaceAction):
    """What Proxmox keeps for root: directories of the node, features beyond nesting. Waits until it is done."""

    vmid: int
    owner: str  # uid and gid of the agent as they are on the node
    binds: tuple[Bind, ...] = ()
    features: str = ""  # all of them, as Proxmox writes it; empty when none of them is for root
    template: int | None = None  # gets the same features, so that machines made from it come with them


@dataclass(frozen=True)
class Start(PlaceAction):
    vmid: int


@dataclass(frozen=True)
class Reboot(PlaceAction):
    vmid: int
    seconds: int


@dataclass(frozen=True)
class Reach(PlaceAction):
    """Wait for address and ssh; a new machine's host key goes on record in its notes."""

    vmid: int
    clone: bool = False  # it still has its template's host key, which is exchanged through the first connection


@dataclass(frozen=True)
class ReachAdopted(PlaceAction):
    """The same for a machine that Paddock has not made. The file may name its host key."""

    vmid: int
    host_key: str | None


@dataclass(frozen=True)
class Shutdown(PlaceAction):
    """Let the machine end its services, and end it if it does not."""

    vmid: int
    seconds: int


@dataclass(frozen=True)
class Detach(PlaceAction):
    """Take foreign volumes out of the configuration, and the unused entries that this leaves."""

    vmid: int


@dataclass(frozen=True)
class Destroy(PlaceAction):
    """Delete a machine, once it has been read that it owns nothing but its root disk."""

    vmid: int


@dataclass(frozen=True)
class CreateBuilder(PlaceAction):
    """Create the container a template is made of."""

    vmid: int
    params: Params


@dataclass(frozen=True)
class Seal(PlaceAction):
    """Stop a builder and turn it into the template its mark announces; finds the template's number."""

    vmid: int


ProxmoxAction = (
    DownloadBase
    | CreatePet
    | AddVolume
    | AddCache
    | AttachCache
    | GrowVolume
    | AdoptPet
    | Reassign
    | AdoptMachine
    | DeleteVolume
    | DestroyPet
    | CreateCattle
    | CloneCattle
    | Configure
    | Attach
    | Describe
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
)
