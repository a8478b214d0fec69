"""Where machines are: a Proxmox node, or a Linux machine that exists already."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from paddock.errors import BadInput
from paddock.spec.fields import Address, Hostname, LocalPath, Model, Port, Url, VolumeId, shorthand, worded
from paddock.spec.secrets import Source

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
    """A person's public key: the key itself, or a file that holds it."""

    text: str | None = Field(None, description="the key itself; a plain text stands for this")
    file: LocalPath | None = Field(None, description="file with one public key a line")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.text is None) == (self.file is None):
            raise ValueError("write a public key (ssh-ed25519 AAAA…) or {file: ~/.ssh/id_ed25519.pub}")
        return self

    def lines(self, folder: Path) -> list[str]:
        """The keys, one each; a file's path starts at the folder."""
        if self.file is None:
            return [self.text or ""]
        path = folder / self.file.expanduser()
        try:
            found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError):
            raise BadInput(f"cannot read public keys in {path}", hint="proxmox.ssh.people names that file") from None
        keys = [line for line in found if line and not line.startswith("#")]
        if not keys or not all(_PUBLIC_KEY.fullmatch(key) for key in keys):
            raise BadInput(f"{path} does not have one public key a line", hint="is it the .pub half of a key?")
        return keys


class SshSpec(Model):
    """How Paddock reaches the machines it creates, and who else may."""

    key: LocalPath = Field(description="private key; the public half is read from the same name with .pub")
    jump: SshDestination | None = Field(None, description="host to go through to machines that cannot be routed to")
    root: SshDestination | None = Field(
        None, description="root@node, to run what a token cannot do; without it you are shown the commands"
    )
    people: list[Annotated[PublicKey, BeforeValidator(_public_key_or_file, json_schema_input_type=str | PublicKey)]] = (
        Field(default_factory=list, description="public keys of people who may log in to the machines, as root")
    )


class BaseSpec(Model):
    """The archive machines are made from: one that is on the node, or one to download."""

    volume: VolumeId | None = Field(None, description="storage:vztmpl/file; a plain text stands for this")
    url: Url | None = Field(None, description="where the node downloads it from if it is missing")
    sha256: str | None = Field(None, description="checksum of the download")
    sha512: str | None = Field(None, description="checksum of the download")
    storage: str = Field("local", description="storage a download goes to")

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
        """The archive as Proxmox names it, be it there already or not."""
        return self.volume or f"{self.storage}:vztmpl/{str(self.url).rpartition('/')[2]}"


class TemplateUse(StrEnum):
    AUTO = "auto"
    NONE = "none"


class ProxmoxSpec(Model):
    """A Proxmox VE node, reached with an API token."""

    url: str = Field(
        pattern=worded(r"^https://[^/\s@]+/?$", "the address of the node's API: https://node:8006"),
        description="https://node:8006",
    )
    node: Hostname = Field(description="name of the node, as Proxmox shows it")
    token: Source = Field(description="user@realm!name=uuid, from outside the file")
    ca: LocalPath | None = Field(
        None, description="CA certificate of the node (/etc/pve/pve-root-ca.pem); without it the system's store"
    )
    fingerprint: str | None = Field(
        None, description="SHA-256 fingerprint of the node's certificate, instead of a CA: 7A:5C:…"
    )
    insecure: bool = Field(False, description="cannot be switched on: pin the fingerprint instead")
    storage: str = Field(description="where root disks and state volumes go")
    base: Annotated[
        BaseSpec,
        shorthand(BaseSpec, "volume", str, example="local:vztmpl/debian-12.tar.zst, or {url: https://…, sha512: …}"),
    ] = Field(description="archive machines are made from")
    template: TemplateUse = Field(
        TemplateUse.AUTO,
        strict=False,
        description="auto: machines are clones of a template Paddock builds; none: made straight from the base",
    )
    bridge: str = Field("vmbr0", description="bridge or SDN vnet machines are connected to")
    ssh: SshSpec = Field(description="how machines are reached")

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


class Scope(StrEnum):
    SYSTEM = "system"
    USER = "user"


class HostSpec(Model):
    """A Linux machine that exists already: this one, or one reached over ssh."""

    address: Address | None = Field(None, description="leave out for this machine")
    user: str = Field("root", description="account to log in with")
    port: Port = Field(22, description="port of its ssh")
    key: LocalPath | None = Field(None, description="private key; without it ssh's own defaults")
    host_key: str | None = Field(None, description="the machine's public host key; without it your known_hosts decides")
    jump: SshDestination | None = Field(None, description="host to go through")
    scope: Scope = Field(
        Scope.SYSTEM, strict=False, description="user: without root, in the account's own `systemd --user` or Podman"
    )

    @property
    def machine(self) -> str:
        """A name for the machine: two places may be the same one."""
        return self.address or "this machine"

    @model_validator(mode="after")
    def _local_has_no_ssh(self) -> Self:
        if self.address is None and self.model_fields_set - {"scope"}:
            raise ValueError("user, port, key, host_key and jump go with an address")
        return self


class PlaceSpec(Model):
    """Where machines are: exactly one of ``proxmox`` and ``host``."""

    proxmox: ProxmoxSpec | None = Field(None, description="a Proxmox VE node")
    host: HostSpec | None = Field(None, description="a Linux machine; {} is this one")

    @model_validator(mode="before")
    @classmethod
    def _exactly_one(cls, data: Any) -> Any:
        # Before the rest: what is missing in the one that should not be there helps nobody.
        if isinstance(data, dict) and len(data.keys() & {"proxmox", "host"}) != 1:
            raise ValueError("a place is either proxmox: or host:")
        return data

    def on_node(self, node: str | None) -> PlaceSpec:
        """The place on another node of its cluster."""
        if node is None or self.proxmox is None:
            return self
        return self.model_copy(update={"proxmox": self.proxmox.model_copy(update={"node": node})})
