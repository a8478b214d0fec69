"""What can be written in a paddock.yaml, as models that refuse what they do not know."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from paddock.spec.secrets import Source
from paddock.spec.sizes import Size, SizeField

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$", description="lower case letters, digits and -")]
VmId = Annotated[int, Field(ge=100, le=999_999_999)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Model(BaseModel):
    """A part of the file: frozen, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Kind(StrEnum):
    HERMES = "hermes"


class RuntimeName(StrEnum):
    SYSTEMD = "systemd"
    PROCESS = "process"


class SshKey(Model):
    """The key pair Paddock uses to reach the machines it creates."""

    key: Path = Field(description="private key; the public half is read from the same name with .pub", strict=False)


class ProxmoxSpec(Model):
    """A Proxmox VE node, reached with an API token."""

    url: str = Field(pattern=r"^https://[^/]+/?$", description="https://node:8006")
    node: str
    token: Source = Field(description="user@realm!name=uuid, from outside the file")
    ca: Path | None = Field(None, description="CA certificate of the node; without it the system's store", strict=False)
    storage: str = Field(description="where root disks and state volumes go")
    base: str = Field(description="template archive machines are made from: storage:vztmpl/file")
    bridge: str = "vmbr0"
    ssh: SshKey


class HostSpec(Model):
    """A Linux machine that exists already: this one, or one reached over ssh."""

    address: str | None = Field(None, description="leave out for this machine")
    user: str = "root"
    port: Port = 22
    key: Path | None = Field(None, description="private key; without it ssh's own defaults", strict=False)
    host_key: str | None = Field(None, description="the machine's public host key; without it your known_hosts decides")

    @model_validator(mode="after")
    def _local_has_no_ssh(self) -> Self:
        if self.address is None and self.model_fields_set:
            raise ValueError("user, port, key and host_key go with an address")
        return self


class PlaceSpec(Model):
    """Where machines are: exactly one of ``proxmox`` and ``host``."""

    proxmox: ProxmoxSpec | None = None
    host: HostSpec | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.proxmox is None) == (self.host is None):
            raise ValueError("a place is either proxmox: or host:")
        return self


class MachineSpec(Model):
    """The machine the agent runs in; Paddock destroys and recreates it freely."""

    vmid: VmId | None = Field(None, description="without it the first free number")
    cores: int = Field(2, ge=1, le=8192)
    memory: SizeField = Size.parse("2G")
    disk: SizeField = Size.parse("8G")


class StateSpec(Model):
    """What the agent has learned: a volume owned by the pet, or a directory."""

    size: SizeField = Size.parse("8G")
    pet: VmId | None = Field(None, description="vmid of the container that owns the volume")


class UserSpec(Model):
    """The account the agent runs as."""

    name: Name
    uid: int = Field(10000, ge=1000, le=60000)


class ApiServerSpec(Model):
    """The agent's OpenAI-compatible API, on loopback only."""

    port: Port = 8642


class ConnectorsSpec(Model):
    """The ways to talk to the agent."""

    api_server: ApiServerSpec = ApiServerSpec()


class VerifySpec(Model):
    """What ``up`` asks the agent to see that it answers."""

    prompt: str = "Say ok."


class AgentSpec(Model):
    """One agent: what it is, where it runs, what it knows and may use."""

    kind: Kind = Field(strict=False)
    version: str = Field(pattern=r"^\d+(\.\d+)*$")
    place: str
    runtime: RuntimeName = Field(RuntimeName.SYSTEMD, strict=False)
    machine: MachineSpec = MachineSpec()
    state: StateSpec = StateSpec()
    user: UserSpec = UserSpec(name="agent")
    settings: dict[str, Any] = Field(default_factory=dict, description="the agent's own configuration")
    secrets: dict[str, Source] = Field(default_factory=dict, description="environment variables from outside")
    environment: dict[str, str] = Field(default_factory=dict)
    connectors: ConnectorsSpec = ConnectorsSpec()
    verify: VerifySpec = VerifySpec()

    @model_validator(mode="before")
    @classmethod
    def _user_is_named_after_the_kind(cls, data: Any) -> Any:
        if isinstance(data, dict) and "user" not in data and isinstance(data.get("kind"), str):
            return {**data, "user": {"name": data["kind"]}}
        return data

    @field_validator("environment", "secrets")
    @classmethod
    def _names_are_variables(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if not name.isidentifier() or not name.isascii():
                raise ValueError(f"{name!r} is not the name of an environment variable")
        return value

    @model_validator(mode="after")
    def _no_name_twice(self) -> Self:
        twice = sorted(self.environment.keys() & self.secrets.keys())
        if twice:
            raise ValueError(f"{', '.join(twice)} is both in environment and in secrets")
        return self


class Spec(Model):
    """A whole paddock.yaml."""

    places: dict[Name, PlaceSpec]
    agents: dict[Name, AgentSpec]

    def mistakes(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Where in the file, and what, about things that are right alone and wrong together."""
        for name, agent in self.agents.items():
            place = self.places.get(agent.place)
            if place is None:
                known = ", ".join(self.places)
                yield (
                    ("agents", name, "place"),
                    f"there is no place {agent.place!r} in this file (there is {known})",
                )
            elif agent.runtime is RuntimeName.PROCESS and (place.host is None or place.host.address is not None):
                yield ("agents", name, "runtime"), "process runs on this machine only: a place with host: {}"
