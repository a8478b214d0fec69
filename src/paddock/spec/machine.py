"""What differs between shapes: the machine, the state, what is mounted, and the container."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum
from typing import Annotated, Any, Self
from urllib.parse import unquote

from pydantic import BeforeValidator, Field, field_validator, model_validator

from paddock.spec import folders
from paddock.spec.fields import (
    AbsolutePath,
    Hostname,
    IpAddress,
    LocalPath,
    Model,
    Tag,
    VmId,
    VolumeId,
    shorthand,
    worded,
)
from paddock.spec.sizes import Size, SizeOrZero

# Lines of Paddock's own in notes: the mark, and the claim of a run. However somebody else may write them.
_MARK = re.compile(r"\s*paddock(-claim)?\s*:", re.IGNORECASE)


class Feature(StrEnum):
    NESTING = "nesting"
    KEYCTL = "keyctl"
    FUSE = "fuse"
    MKNOD = "mknod"
    FORCE_RW_SYS = "force_rw_sys"


class NetSpec(Model):
    """The machine's network card."""

    address: str = Field("dhcp", description="dhcp, or an IPv4 address with its prefix: 192.168.1.105/24")
    gateway: IpAddress | None = Field(None, description="goes with an address")
    bridge: str | None = Field(None, description="bridge or SDN vnet, instead of the place's")
    vlan: int | None = Field(None, ge=1, le=4094, description="VLAN tag")
    mtu: int | None = Field(None, ge=576, le=65535, description="without it the bridge's")
    firewall: bool = Field(False, description="whether Proxmox' firewall filters this card")
    mac: (
        Annotated[
            str, Field(pattern=worded(r"^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$", "a MAC address: BC:24:11:01:02:03"))
        ]
        | None
    ) = Field(None, description="without it one that every machine of the agent has again")

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
            raise ValueError("must be dhcp, or an address of a machine with its prefix, like 192.168.1.105/24")
        return value

    @model_validator(mode="after")
    def _gateway_is_near(self) -> Self:
        if self.gateway is None:
            return self
        if self.address == "dhcp":
            raise ValueError("a gateway goes with an address; DHCP brings its own")
        if ipaddress.ip_address(self.gateway) not in ipaddress.IPv4Interface(self.address).network:
            raise ValueError("the gateway is not in the network of the address")
        return self


class DnsSpec(Model):
    """Who resolves names on the machine; without it the node's resolvers do."""

    servers: list[IpAddress] = Field(default_factory=list, description="addresses of name servers")
    search: Hostname | None = Field(None, description="domain that short names are looked up in")


class MachineSpec(Model):
    """The machine the agent runs in; Paddock destroys and recreates it freely."""

    vmid: VmId | None = Field(None, description="its number; without it the first free one")
    hostname: Hostname | None = Field(None, description="without it the agent's name")
    description: str | None = Field(None, description="text for the machine's notes, above Paddock's mark")
    cores: int = Field(2, ge=1, le=8192, description="processor cores")
    memory: Size = Field(Size.parse("2G"), description="memory")
    swap: SizeOrZero = Field(Size.parse("512M"), description="swap; 0 for none")
    disk: Size = Field(Size.parse("8G"), description="root disk; grows, never shrinks")
    node: Hostname | None = Field(None, description="node of the cluster, instead of the place's")
    storage: str | None = Field(None, description="storage of the root disk, instead of the place's")
    net: Annotated[
        NetSpec,
        shorthand(NetSpec, "address", str, example="dhcp, 192.168.1.105/24 or {address: 192.168.1.105/24, gateway: …}"),
    ] = Field(NetSpec(), description="dhcp, an address with prefix, or a mapping")
    dns: Annotated[
        DnsSpec, shorthand(DnsSpec, "servers", list[str], example="[1.1.1.1] or {servers: [1.1.1.1], search: lan}")
    ] = Field(DnsSpec(), description="list of name servers, or a mapping")
    features: list[Annotated[Feature, Field(strict=False)]] = Field(
        default_factory=lambda: [Feature.NESTING],
        description="what the container may do; a token can set nesting alone, the rest is a step for root",
    )
    start_on_boot: bool = Field(True, description="whether it starts with the node")
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
    ) = Field(None, description="ssh host key of a machine that `adopt` finds; Paddock knows those of its own machines")
    tags: list[Tag] = Field(default_factory=list, description="tags beside Paddock's own")

    @field_validator("description")
    @classmethod
    def _without_a_mark(cls, value: str | None) -> str | None:
        # A second mark, or one that cannot be read, would make the machine nobody's. Proxmox keeps notes with escapes,
        # so a line break in that form counts too.
        if any(_MARK.match(line) for text in (value or "", unquote(value or "")) for line in text.splitlines()):
            raise ValueError(
                "must not have a line that begins with paddock: as the mark does, by which machines are found"
            )
        return value


class PetSpec(Model):
    """The container that owns the state volume: protected, stopped, never destroyed."""

    vmid: VmId | None = Field(None, description="its number; without it the first free one; may be shared by agents")
    name: Hostname | None = Field(None, description="host name; without it the agent's name with -pet")
    cores: int = Field(1, ge=1, le=8192, description="it never runs, but Proxmox wants a number")
    memory: Size = Field(Size.parse("256M"), description="the same")
    disk: Size = Field(Size.parse("2G"), description="its root disk; the base must fit")


class StateSpec(Model):
    """What the agent has learned: a volume owned by the pet, or a directory of a host."""

    size: Size = Field(Size.parse("8G"), description="size of the volume; grows, never shrinks")
    path: AbsolutePath | None = Field(
        None, description="where it is on the machine; without it /var/lib/paddock/ and the agent's name"
    )
    backup: bool = Field(True, description="whether Proxmox' own backups of the pet include the volume")
    storage: str | None = Field(None, description="storage of the volume, instead of the place's")
    volume: VolumeId | None = Field(None, description="a volume the pet has already; without it Paddock's own")
    pet: Annotated[PetSpec, shorthand(PetSpec, "vmid", int, example="999 or {vmid: 999, name: pet-storage}")] = Field(
        PetSpec(), description="vmid of the container that owns the volume, or a mapping"
    )

    @field_validator("path")
    @classmethod
    def _a_folder_of_its_own(cls, value: str | None) -> str | None:
        if value is not None and (wrong := folders.wrong_for_a_state(value)):
            raise ValueError(wrong)
        return value


class MountSpec(Model):
    """A directory of the host that the agent sees too."""

    host: AbsolutePath = Field(description="directory on the node or host; it is never deleted")
    path: AbsolutePath = Field(description="where the agent sees it")
    read_only: bool = Field(False, description="whether the agent may only read it")

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
    """The container an engine (docker, podman) runs the agent in."""

    image: Image | None = Field(None, description="an image that brings the agent's code itself, like its official one")
    base: Image | None = Field(
        None, description="a distribution with Python, like python:3.12-slim, that the code is mounted into"
    )
    archive: LocalPath | None = Field(
        None, description="file that holds the image or base (docker save, or a root filesystem), without a registry"
    )
    volumes: list[Volume] = Field(default_factory=list, description="more volumes: machine:container or …:ro")
    options: list[str] = Field(default_factory=list, description="more options of `docker create`, like --gpus, all")
    shm_size: Size = Field(Size.parse("1G"), description="shared memory; browsers want 1G")
    memory: Size | None = Field(None, description="limit; without it the machine's")
    cpus: Annotated[float, Field(gt=0), BeforeValidator(_whole_number_too)] | None = Field(
        None, description="limit, like 2 or 1.5; without it the machine's"
    )
    data: Size | None = Field(
        None, description="a volume for the engine's images on a proxmox place, where overlay2 works; the pet keeps it"
    )
    install: bool = Field(False, description="whether Paddock installs the engine from the distribution's packages")
    sudo: bool = Field(False, description="whether the agent may become root inside the container")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.image is not None and self.base is not None:
            raise ValueError("image brings the agent's code and base does not; keep one")
        if self.archive is not None and self.image is None and self.base is None:
            raise ValueError("say what the archive holds: image: NAME (with the agent's code) or base: NAME (without)")
        return self
