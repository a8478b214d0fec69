"""The keys ``machine``, ``state``, ``mounts`` and ``container`` of an agent."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum
from typing import Annotated, Any, Self
from urllib.parse import unquote

from pydantic import BeforeValidator, Field, field_validator, model_validator

from paddock.file.models.fields import (
    AbsolutePath,
    Hostname,
    IpAddress,
    LocalPath,
    Model,
    Tag,
    VmId,
    VolumeId,
    no_items,
    shorthand,
    worded,
)
from paddock.file.models.quantities import Size, SizeOrZero
from paddock.file.rules import folders

# The lines that Paddock writes into notes: the mark, and the claim of a run; in any spelling.
_MARK = re.compile(r"\s*paddock(-claim)?\s*:", re.IGNORECASE)


_ENGINE_SOCKETS = frozenset({"docker.sock", "podman.sock"})


class Feature(StrEnum):
    NESTING = "nesting"
    KEYCTL = "keyctl"
    FUSE = "fuse"
    MKNOD = "mknod"
    FORCE_RW_SYS = "force_rw_sys"


class NetSpec(Model):
    """The machine's network interface."""

    address: str = Field("dhcp", description="dhcp, or an IPv4 address with its prefix: 192.168.1.105/24")
    gateway: IpAddress | None = Field(None, description="the network gateway; only with an address")
    bridge: str | None = Field(None, description="bridge or SDN vnet; without it the place's")
    vlan: int | None = Field(None, ge=1, le=4094, description="VLAN tag")
    mtu: int | None = Field(None, ge=576, le=65535, description="MTU of the interface; without it the bridge's")
    firewall: bool = Field(False, description="whether the Proxmox firewall filters this interface")
    mac: (
        Annotated[
            str, Field(pattern=worded(r"^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$", "a MAC address: BC:24:11:01:02:03"))
        ]
        | None
    ) = Field(None, description="MAC address; without it one made from project, place and agent, the same each time")

    @field_validator("address")
    @classmethod
    def _dhcp_or_interface(cls, value: str) -> str:
        if value == "dhcp":
            return value
        try:
            interface = ipaddress.IPv4Interface(value)
        except ValueError:
            raise ValueError("must be dhcp, or an address with its prefix, like 192.168.1.105/24") from None
        network = interface.network
        if "/" not in value or (interface.ip == network.network_address and network.num_addresses > 2):
            raise ValueError("must be dhcp, or a machine's address with its prefix, like 192.168.1.105/24")
        return value

    @model_validator(mode="after")
    def _network_gateway_is_reachable(self) -> Self:
        if self.gateway is None:
            return self
        if self.address == "dhcp":
            raise ValueError("a network gateway needs an address; DHCP brings its own gateway")
        if ipaddress.ip_address(self.gateway) not in ipaddress.IPv4Interface(self.address).network:
            raise ValueError("the network gateway is not in the network of the address")
        return self


class DnsSpec(Model):
    """Name resolution on the machine; without it the settings of the node."""

    servers: list[IpAddress] = Field(default_factory=no_items, description="addresses of name servers")
    search: Hostname | None = Field(None, description="domain that is added to short names")


class MachineSpec(Model):
    """The machine the agent runs on. Paddock destroys and recreates it; the state is kept.

    On a host, with runtime systemd, only `memory` and `cores` apply.
    """

    vmid: VmId | None = Field(None, description="the container's number; without it the first free one")
    hostname: Hostname | None = Field(None, description="host name; without it the agent's name")
    description: str | None = Field(None, description="text for the machine's notes, above Paddock's mark")
    cores: int = Field(
        2,
        ge=1,
        le=8192,
        description="processor cores; on a host, if given, a limit of each of the agent's units",
    )
    memory: Size = Field(
        Size.parse("2G"),
        description="memory; on a host a limit of each of the agent's units, 80% of the host's memory unless given",
    )
    swap: SizeOrZero = Field(Size.parse("512M"), description="swap space; 0 for none")
    disk: Size = Field(Size.parse("8G"), description="size of the root disk; it can grow but not shrink")
    node: Hostname | None = Field(None, description="node of the cluster; without it the place's")
    storage: str | None = Field(None, description="storage of the root disk; without it the place's")
    net: Annotated[
        NetSpec,
        shorthand(NetSpec, "address", str, example="dhcp, 192.168.1.105/24 or {address: 192.168.1.105/24, gateway: …}"),
    ] = Field(NetSpec.model_construct(), description="dhcp, an address with prefix, or a mapping")
    dns: Annotated[
        DnsSpec, shorthand(DnsSpec, "servers", list[str], example="[1.1.1.1] or {servers: [1.1.1.1], search: lan}")
    ] = Field(DnsSpec.model_construct(), description="list of name servers, or a mapping")
    features: list[Annotated[Feature, Field(strict=False)]] = Field(
        default_factory=lambda: [Feature.NESTING],
        description="features of the container, and no others; an API token can set only nesting, the others need a"
        " step by root",
    )
    start_on_boot: bool = Field(True, description="whether the machine starts when the node boots")
    host_key: (
        Annotated[
            str,
            Field(
                pattern=worded(
                    r"^(SHA256:[A-Za-z0-9+/]{43}|ssh-ed25519 AAAA[A-Za-z0-9+/]+={0,2}( [^\r\n]*)?)$",
                    "an ssh host key: SHA256:… as `ssh-keygen -l` prints it, or ssh-ed25519 AAAA…",
                )
            ),
        ]
        | None
    ) = Field(None, description="ssh host key of a machine to adopt; not needed for machines that Paddock creates")
    tags: list[Tag] = Field(default_factory=no_items, description="more tags, beside those that Paddock sets")

    @field_validator("description")
    @classmethod
    def _without_a_mark(cls, value: str | None) -> str | None:
        # With a second or a broken mark Paddock would no longer recognise the machine. Proxmox stores notes with
        # escapes, so an escaped line break counts too.
        if any(_MARK.match(line) for text in (value or "", unquote(value or "")) for line in text.splitlines()):
            raise ValueError(
                "must not have a line that begins with paddock: because Paddock finds its machines by such a line"
            )
        return value


class PetSpec(Model):
    """The pet: a protected, stopped container that owns the state volume and is never destroyed."""

    vmid: VmId | None = Field(
        None, description="the pet's number; without it the first free one; several agents may share a pet"
    )
    name: Hostname | None = Field(None, description="the pet's host name; without it the agent's name with -pet")
    cores: int = Field(
        1, ge=1, le=8192, description="processor cores; the pet never runs, but Proxmox requires a number"
    )
    memory: Size = Field(Size.parse("256M"), description="memory; the pet never runs, but Proxmox requires a size")
    disk: Size = Field(Size.parse("2G"), description="size of the pet's root disk; the base must fit")


class StateSpec(Model):
    """The agent's precious files: a volume that the pet owns, or a directory on a host."""

    size: Size = Field(Size.parse("8G"), description="size of the state volume; it can grow but not shrink")
    path: AbsolutePath | None = Field(
        None, description="path of the state on the machine; without it /var/lib/paddock/ and the agent's name"
    )
    backup: bool = Field(True, description="whether Proxmox backups of the pet include the state volume")
    storage: str | None = Field(None, description="storage of the state volume; without it the place's")
    volume: VolumeId | None = Field(None, description="an existing volume of the pet; without it Paddock creates one")
    pet: Annotated[PetSpec, shorthand(PetSpec, "vmid", int, example="999 or {vmid: 999, name: pet-storage}")] = Field(
        PetSpec.model_construct(), description="vmid of the pet, or a mapping"
    )

    @field_validator("path")
    @classmethod
    def _a_folder_of_its_own(cls, value: str | None) -> str | None:
        if value is not None and (wrong := folders.wrong_for_a_state(value)):
            raise ValueError(wrong)
        return value


class MountSpec(Model):
    """A directory of the host that the agent can use."""

    host: AbsolutePath = Field(description="directory on the node or host; Paddock never deletes it")
    path: AbsolutePath = Field(description="path at which the agent sees the directory")
    read_only: bool = Field(False, description="whether the agent can read but not write")

    @model_validator(mode="before")
    @classmethod
    def _not_a_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("write {host: /ON/THE/MACHINE, path: /FOR/THE/AGENT}")  # noqa: TRY004  the file's mistake
        return value

    @field_validator("host", "path")
    @classmethod
    def _not_the_root(cls, value: str) -> str:
        if value == "/":
            raise ValueError("/ itself cannot be mounted")
        if re.search(r"[\s,:%\\'\"]|//", value):
            raise ValueError("must be a path without spaces, commas, colons and quotes")
        return value


Volume = Annotated[
    str,
    Field(
        pattern=worded(
            r"^[^:\s][^:]*:/[^:]*(:(ro|rw))?$",
            "a volume: /on/the/machine:/in/the/container, and :ro if it is read-only",
        )
    ),
]


def _whole_number_too(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Image = Annotated[
    str,
    Field(pattern=worded(r"^[a-z0-9][^\s@]*(@sha256:[0-9a-f]{64})?$", "an image: name:tag, or name@sha256:digest")),
]


class ContainerSpec(Model):
    """The container that Docker or Podman runs the agent in."""

    image: Image | None = Field(None, description="an image that contains the agent's code, like its official one")
    base: Image | None = Field(
        None,
        description="an image without the agent's code, like ubuntu:24.04; the code is mounted, and Python is added",
    )
    archive: LocalPath | None = Field(
        None, description="file with the image or base (from docker save, or a root filesystem), instead of a registry"
    )
    volumes: list[Volume] = Field(
        default_factory=no_items, description="more volumes: /on/the/machine:/in/the/container, with :ro for read-only"
    )
    options: list[str] = Field(
        default_factory=no_items, description="more options for `docker create`, like --gpus, all"
    )
    shm_size: Size = Field(Size.parse("1G"), description="size of /dev/shm; browsers need 1G")
    memory: Size | None = Field(None, description="memory limit; without it all of the machine's memory")
    cpus: Annotated[float, Field(gt=0), BeforeValidator(_whole_number_too)] | None = Field(
        None, description="processor limit, like 2 or 1.5; without it all of the machine's cores"
    )
    data: Size | None = Field(
        None, description="size of a cache volume for the engine's images, at a proxmox place; overlay2 works there"
    )
    install: bool = Field(False, description="whether Paddock installs the engine from the distribution's packages")
    sudo: bool = Field(False, description="whether the agent may become root inside the container")
    writable: bool = Field(
        False,
        description="whether the agent may install packages of the distribution (apt, dnf) in the container; it becomes"
        " root inside for that, which outside is the machine's root, behind the engine's confinement only",
    )

    @property
    def may_become_root(self) -> bool:
        """Whether the agent may become root inside the container."""
        return self.sudo or self.writable

    @property
    def sockets(self) -> list[str]:
        """The paths in the container of the sockets of engines among the volumes."""
        parts = [volume.split(":") for volume in self.volumes]
        return [path for host, path, *_ in parts if host.rpartition("/")[2] in _ENGINE_SOCKETS]

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.image is not None and self.base is not None:
            raise ValueError("image contains the agent's code and base does not; keep one")
        if self.archive is not None and self.image is None and self.base is None:
            raise ValueError(
                "say what the archive contains: image: NAME (with the agent's code) or base: NAME (without it)"
            )
        return self
