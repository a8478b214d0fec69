"""The changes Paddock makes on a node, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paddock.plan.step import Action, Ref

STATE_VOLUME: Final = Ref("state volume")
ADDRESS: Final = Ref("address")
HOST_KEY: Final = Ref("host key")

MOUNT_KEY: Final = "mp0"  # where a pet keeps the volume and cattle mounts it


@dataclass(frozen=True)
class CreatePet(Action):
    """Create the protected container that owns the state volume; finds the volume's name."""

    vmid: int
    params: Mapping[str, str | int]


@dataclass(frozen=True)
class CreateCattle(Action):
    """Create the machine with the state volume in the same call."""

    vmid: int
    params: Mapping[str, str | int]
    volume: str | Ref
    mount: str


@dataclass(frozen=True)
class Configure(Action):
    """Change keys of a container's configuration."""

    vmid: int
    params: Mapping[str, str | int]


@dataclass(frozen=True)
class Start(Action):
    vmid: int


@dataclass(frozen=True)
class Reach(Action):
    """Wait for address and ssh; on first contact record the machine's host key in its notes."""

    vmid: int


@dataclass(frozen=True)
class Shutdown(Action):
    """Let the machine end its services, and end it if it does not."""

    vmid: int
    seconds: int


@dataclass(frozen=True)
class Detach(Action):
    """Take foreign volumes out of the configuration, and the unused entries that this leaves."""

    vmid: int


@dataclass(frozen=True)
class Destroy(Action):
    """Delete the machine, once it has been read that it owns nothing but its root disk."""

    vmid: int
