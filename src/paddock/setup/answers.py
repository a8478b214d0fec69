"""The answers of a conversation, from which paddock.yaml is written."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from paddock.base.frozen import frozen


class Shape(StrEnum):
    """How an agent runs. Each has an example file."""

    PET_AND_CATTLE = "pet-and-cattle"
    DOCKER_LXC = "docker-lxc"
    CONTAINER = "container"
    NATIVE = "native"

    @property
    def on_proxmox(self) -> bool:
        return self in (Shape.PET_AND_CATTLE, Shape.DOCKER_LXC)


@frozen
class Sizes:
    """Gibibytes for the root disk of a machine and for the state."""

    disk: int = 20
    state: int = 10


@frozen
class Base:
    """The base archive of the machines. Without a checksum it is on the node already."""

    volume: str
    url: str | None = None
    sha512: str | None = None


@frozen
class OnNode:
    """A Proxmox node, as the file describes it."""

    url: str
    fingerprint: str | None  # None: the system trusts the certificate
    token: str  # its source
    node: str
    storage: str
    bridge: str
    base: Base
    ssh_key: str = "~/.ssh/id_ed25519"
    docker: bool = False
    sizes: Sizes = Sizes()
    pet: int | None = None  # the number of the container that owns the state
    templates: bool = True  # whether the storage can hold templates


@frozen
class OnHost:
    """A Linux machine, as the file describes it."""

    runtime: str
    rootless: bool = False  # without root: in the account that Paddock logs in with
    address: str | None = None  # None: this machine
    user: str = "root"
    port: int = 22
    key: str | None = None
    host_key: str | None = None
    install: bool = False  # the engine has to be installed


@frozen
class Model:
    """The model of the agent, and where its key comes from."""

    provider: str  # a name of Hermes' own, or one for ``url``
    name: str
    url: str | None = None  # of an OpenAI-compatible server; None: the provider's own
    variable: str | None = None  # that has the key; None: without a key
    key: str | None = None  # the source of the key
    context: int | None = None


@frozen
class Answers:
    """Everything that paddock.yaml says."""

    project: str
    place: OnNode | OnHost
    model: Model
    port: int = 8642


AGENT: Final = "hermes"
PLACE: Final = "home"
