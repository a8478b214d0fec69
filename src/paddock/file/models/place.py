"""The part of the file about places: a Proxmox node, or an existing Linux host."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, create_model, field_validator, model_validator

from paddock.base.errors import BadInput
from paddock.file.models.fields import (
    Address,
    Hostname,
    LocalPath,
    Model,
    Port,
    Url,
    VolumeId,
    no_items,
    shorthand,
    worded,
)
from paddock.file.secrets.sources import Source

# The kinds of places: the key in the file, and the folder. A new place is its folder and a line here. Its `keys.py` has
# the model ``Keys``, its `place.py` has ``open_place``. Only the name leads there: the file imports no place.
PLACES: Final = {
    "proxmox": "paddock.places.proxmox",
    "host": "paddock.places.host",
}

_PUBLIC_KEY = re.compile(r"(ssh-|ecdsa-|sk-)\S+ [A-Za-z0-9+/=]{20,}( .*)?")
_CHECKSUMS = {"sha256": 64, "sha512": 128}

SshDestination = Annotated[
    str,
    Field(pattern=worded(r"^([a-z_][a-z0-9_.-]*@)?[A-Za-z0-9.:\[\]-]+$", "an ssh destination: user@host or host:port")),
]


def _public_key_or_file(value: Any) -> Any:
    if isinstance(value, str):
        if not _PUBLIC_KEY.fullmatch(value.strip()):
            raise ValueError("write a public key (ssh-ed25519 AAAA…) or {file: ~/.ssh/id_ed25519.pub}")
        return {"text": value.strip()}
    return value


class PublicKey(Model):
    """A person's public ssh key: the key itself, or a file with keys."""

    text: str | None = Field(None, description="the key itself; a plain text stands for this")
    file: LocalPath | None = Field(None, description="file with one public key per line")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.text is None) == (self.file is None):
            raise ValueError("write a public key (ssh-ed25519 AAAA…) or {file: ~/.ssh/id_ed25519.pub}")
        return self

    def lines(self, folder: Path) -> list[str]:
        """Return the keys, one per item; a relative path starts at the folder."""
        if self.file is None:
            return [self.text or ""]
        path = folder / self.file.expanduser()
        try:
            found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError):
            raise BadInput(f"cannot read public keys in {path}", hint="proxmox.ssh.people names that file") from None
        keys = [line for line in found if line and not line.startswith("#")]
        if not keys or not all(_PUBLIC_KEY.fullmatch(key) for key in keys):
            raise BadInput(
                f"{path} does not have one public key per line", hint="name the public key, which ends with .pub"
            )
        return keys


class Reach(StrEnum):
    SSH = "ssh"
    PCT = "pct"


class SshSpec(Model):
    """How Paddock logs in to the machines it creates, and who else may log in."""

    key: LocalPath = Field(description="private key; the public key is read from the same path with .pub")
    jump: SshDestination | None = Field(None, description="ssh jump host, for machines that cannot be reached directly")
    root: SshDestination | None = Field(
        None,
        description="root@node, for steps that an API token cannot do; without it Paddock prints the commands for you",
    )
    reach: Reach = Field(
        Reach.SSH,
        strict=False,
        description="ssh: machines are reached over the network; pct: with `pct exec` on the node, as root",
    )
    people: list[Annotated[PublicKey, BeforeValidator(_public_key_or_file, json_schema_input_type=str | PublicKey)]] = (
        Field(default_factory=no_items, description="public keys of people who may log in to the machines as root")
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if self.reach is Reach.PCT and self.root is None:
            raise ValueError("reach: pct runs `pct exec` on the node, and needs root: root@node")
        if self.reach is Reach.PCT and self.jump is not None:
            raise ValueError("with reach: pct no machine is reached over the network; leave jump out")
        return self


class BaseSpec(Model):
    """The archive that machines are created from: one on the node, or one to download."""

    volume: VolumeId | None = Field(None, description="storage:vztmpl/file; a plain text stands for this")
    url: Url | None = Field(None, description="URL from which the node downloads the archive if it is missing")
    sha256: str | None = Field(None, description="checksum of the download")
    sha512: str | None = Field(None, description="checksum of the download")
    storage: str = Field("local", description="storage for the downloaded archive")

    @field_validator("sha256", "sha512")
    @classmethod
    def _hex(cls, value: str | None, info: Any) -> str | None:
        digits = _CHECKSUMS[info.field_name]
        if value is not None and not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", value):
            raise ValueError(f"a {info.field_name} checksum has {digits} hexadecimal digits")
        return value.lower() if value else None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.volume is None) == (self.url is None):
            raise ValueError("a base is storage:vztmpl/file, or {url: https://…, sha512: …}")
        if self.url is not None and (self.sha256 is None) == (self.sha512 is None):
            raise ValueError("a download needs its checksum: sha512: … (or sha256: …)")
        return self

    @property
    def volid(self) -> str:
        """The archive's volume id in Proxmox, whether the archive exists yet or not."""
        return self.volume or f"{self.storage}:vztmpl/{str(self.url).rpartition('/')[2]}"


PoolName = Annotated[
    str,
    Field(
        pattern=worded(
            r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*){0,2}$",
            "the name of a pool: letters, digits, - _ and dots",
        )
    ),
]


class PoolsSpec(Model):
    """The two pools of Proxmox that hold everything Paddock manages; a token needs rights on nothing else."""

    machines: PoolName = Field("paddock", description="pool of machines and templates")
    state: PoolName = Field("paddock-state", description="pool of pets, which own the states")

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.machines == self.state:
            raise ValueError("machines and pets need two pools: in one pool, a token for machines could delete a pet")
        return self


def _pools_or_none(value: Any) -> Any:
    if value == "none":
        return None
    if value is None:
        raise ValueError("write {machines: NAME, state: NAME}, or none")
    return value


class TemplateUse(StrEnum):
    AUTO = "auto"
    NONE = "none"


class ProxmoxSpec(Model):
    """A Proxmox VE node, reached with an API token."""

    url: str = Field(
        pattern=worded(r"^https://[^/\s@]+/?$", "the address of the node's API: https://node:8006"),
        description="address of the node's API, like https://node:8006",
    )
    node: Hostname = Field(description="name of the node, as Proxmox shows it")
    token: Source = Field(description="source of the API token, which has the form user@realm!name=uuid")
    ca: LocalPath | None = Field(
        None,
        description="CA certificate of the node (/etc/pve/pve-root-ca.pem); without it the system's CA certificates",
    )
    fingerprint: str | None = Field(
        None, description="SHA-256 fingerprint of the node's certificate, instead of ca: 7A:5C:…"
    )
    insecure: bool = Field(False, description="must be false; write fingerprint: instead")
    storage: str = Field(description="storage for root disks and state volumes")
    base: Annotated[
        BaseSpec,
        shorthand(BaseSpec, "volume", str, example="local:vztmpl/debian-12.tar.zst, or {url: https://…, sha512: …}"),
    ] = Field(description="the archive that machines are created from")
    pools: Annotated[
        PoolsSpec | None, BeforeValidator(_pools_or_none, json_schema_input_type=PoolsSpec | Literal["none"])
    ] = Field(
        PoolsSpec.model_construct(),
        description="pools of Proxmox for machines and pets, which limit what the token may touch; none: no pools",
    )
    template: TemplateUse = Field(
        TemplateUse.AUTO,
        strict=False,
        description="auto: machines are clones of a template that Paddock builds; none: they are created from the base",
    )
    bridge: str = Field("vmbr0", description="bridge or SDN vnet that machines are connected to")
    ssh: SshSpec = Field(description="how to log in to the machines")

    @field_validator("fingerprint")
    @classmethod
    def _sha256(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"([0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}", value):
            raise ValueError("a fingerprint is 32 pairs of hexadecimal digits with : between them (SHA-256)")
        return value.upper() if value else None

    @field_validator("insecure")
    @classmethod
    def _never(cls, value: bool) -> bool:
        if value:
            raise ValueError(
                "certificates are always verified; write fingerprint: or ca: instead"
                " (on the node: openssl x509 -in /etc/pve/local/pve-ssl.pem -noout -fingerprint -sha256)"
            )
        return value

    @model_validator(mode="after")
    def _one_way_to_trust(self) -> Self:
        if self.ca is not None and self.fingerprint is not None:
            raise ValueError("ca and fingerprint are two ways to trust the node; keep one")
        return self

    @property
    def identity(self) -> str:
        """The node, named in the same way for all files that have this URL."""
        return f"{self.url.rstrip('/').lower()} {self.node}"


class Scope(StrEnum):
    SYSTEM = "system"
    USER = "user"


class HostSpec(Model):
    """An existing Linux machine: this one, or one reached over ssh."""

    address: Address | None = Field(None, description="host name or IP address; leave it out for this machine")
    user: str = Field("root", description="account to log in with")
    port: Port = Field(22, description="port of its ssh server")
    key: LocalPath | None = Field(None, description="private key; without it the defaults of ssh")
    host_key: str | None = Field(None, description="the machine's public host key; without it your known_hosts is used")
    jump: SshDestination | None = Field(None, description="ssh jump host, if it cannot be reached directly")
    scope: Scope = Field(
        Scope.SYSTEM,
        strict=False,
        description="system: with root; user: without root, with the account's `systemd --user` or Podman",
    )

    @property
    def machine(self) -> str:
        """A name for the machine, equal for two places on one machine."""
        return self.address or "this machine"

    @model_validator(mode="after")
    def _local_has_no_ssh(self) -> Self:
        if self.address is None and self.model_fields_set - {"scope"}:
            raise ValueError("user, port, key, host_key and jump need an address")
        return self


class PlaceSpec(Model):
    """Where machines are: exactly one of ``proxmox`` and ``host``."""

    # Rules between keys name these two. ``complete`` adds the other places of the table.
    proxmox: ProxmoxSpec | None = Field(None, description="a Proxmox VE node")
    host: HostSpec | None = Field(None, description="a Linux machine; {} is this one")

    @model_validator(mode="before")
    @classmethod
    def _exactly_one(cls, data: Any) -> Any:
        # Checked first: details about the wrong one of the keys would not help.
        if isinstance(data, dict) and len(data.keys() & PLACES.keys()) != 1:
            raise ValueError(f"a place is either {' or '.join(f'{key}:' for key in PLACES)}")
        return data

    @classmethod
    def complete(cls, named: Collection[str] = PLACES.keys()) -> type[PlaceSpec]:
        """Return the model with a field for each of the named places."""
        further = [key for key in PLACES if key in named and key not in cls.model_fields]
        models = {key: import_module(f"{PLACES[key]}.keys").Keys for key in further}
        fields: dict[str, Any] = {
            key: (keys | None, Field(None, description=keys.__doc__)) for key, keys in models.items()
        }
        return create_model("PlaceSpec", __base__=cls, __doc__=cls.__doc__, **fields) if fields else cls

    @property
    def key(self) -> str:
        """The key of ``PLACES`` that the place has in the file."""
        return next(key for key in PLACES if getattr(self, key, None) is not None)

    def on_node(self, node: str | None) -> PlaceSpec:
        """Return the place with another node of its cluster."""
        if node is None or self.proxmox is None:
            return self
        return self.model_copy(update={"proxmox": self.proxmox.model_copy(update={"node": node})})
