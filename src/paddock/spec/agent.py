"""The part of the file that agents of every kind have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from paddock.spec.durations import Duration
from paddock.spec.fields import IpAddress, LocalPath, Model, Name, Package, Port, RelativePath, VariableName, shorthand
from paddock.spec.machine import ContainerSpec, MachineSpec, MountSpec, StateSpec
from paddock.spec.secrets import Source
from paddock.spec.tree import Location


class RuntimeName(StrEnum):
    SYSTEMD = "systemd"
    DOCKER = "docker"
    PODMAN = "podman"
    PROCESS = "process"

    @property
    def is_engine(self) -> bool:
        return self in {RuntimeName.DOCKER, RuntimeName.PODMAN}


class Restart(StrEnum):
    ALWAYS = "always"
    ON_FAILURE = "on-failure"
    NO = "no"


class UserSpec(Model):
    """The account the agent runs as; without sudo, without a password."""

    name: Name = Field("agent", description="without it the kind's name")
    uid: int = Field(10000, ge=1000, le=60000, description="its number, also of the files of the state")
    group: Name | None = Field(None, description="without it a group of the same name")
    gid: int | None = Field(None, ge=1000, le=60000, description="without it the same number")
    create: bool = Field(True, description="whether Paddock makes it; false: it must be there")

    @property
    def group_name(self) -> str:
        return self.group or self.name


class SupervisionSpec(Model):
    """How the agent's processes are kept running."""

    restart: Restart = Field(Restart.ALWAYS, strict=False, description="always, on-failure or no")
    restart_delay: Duration = Field(Duration.parse("5s"), description="pause before a restart")
    args: list[str] = Field(default_factory=list, description="more arguments for the agent's main program")


class DocumentSpec(Model):
    """A text the agent finds: written here, or in a file beside this one."""

    text: str | None = Field(None, description="the text; a plain text stands for this")
    file: LocalPath | None = Field(None, description="file to take it from")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.text is None) == (self.file is None):
            raise ValueError("a document is its text, or {file: ./PATH}")
        return self


class ExposeSpec(Model):
    """A port that is reachable from beyond the machine."""

    port: Port | None = Field(None, description="without it the port of the process so named; a number stands for this")
    address: IpAddress = Field("0.0.0.0", description="address to listen on")  # noqa: S104  exposing is what it is for


class VerifySpec(Model):
    """What ``up`` asks the agent to see that it answers."""

    prompt: str = Field("Say ok.", min_length=1, description="the question")
    timeout: Duration = Field(Duration.parse("90s"), description="how long it may take to become healthy")


Document = Annotated[DocumentSpec, shorthand(DocumentSpec, "text", str, example="a text, or {file: ./SOUL.md}")]


class AgentSpec(Model):
    """What every kind of agent has: what it is, where it runs, what it knows and may use."""

    # Facts about a kind that the file's rules need. A kind overrides those that differ.
    #
    # Keys whose texts other programs read and expand ${NAME} in. The value is the remedy for a secret written there;
    # None for keys without names of someone's choice, which could be names of secrets.
    expanded: ClassVar[Mapping[str, str | None]] = {"documents": None, "service": None, "verify": None}
    # Names that other tools have for keys, in lower case letters only, with the path of the key.
    names_elsewhere: ClassVar[Mapping[str, str]] = {
        "backend": "runtime",
        "createuser": "user.create",
        "dnsservers": "machine.dns",
        "enable": "enabled",
        "envfile": "environment_files",
        "extraargs": "service.args",
        "extraoptions": "container.options",
        "extrapackages": "packages",
        "extravolumes": "container.volumes",
        "mountpoint": "mounts",
        "onboot": "machine.start_on_boot",
        "protection": "state.pet",
        "restartsec": "service.restart_delay",
        "rootfs": "machine.disk",
        "statedir": "state.path",
        "unprivileged": "machine",
        "vmid": "machine.vmid",
    }
    # Keys that are not supported in containers, with the reason.
    not_in_containers: ClassVar[Mapping[str, str]] = {}
    # The name of the port that serves models to other agents.
    models_port: ClassVar[str | None] = None

    kind: str = Field(description="which kind of agent it is")
    enabled: bool = Field(True, description="false: Paddock leaves it as it is and brings nothing up")
    place: str = Field(description="name of a place of this file")
    runtime: RuntimeName = Field(
        RuntimeName.SYSTEMD, strict=False, description="what supervises it: systemd, docker, podman or process"
    )
    machine: MachineSpec = Field(MachineSpec(), description="the machine it runs in, on a proxmox place")
    state: StateSpec = Field(StateSpec(), description="what it has learned")
    mounts: list[MountSpec] = Field(default_factory=list, description="directories of the host it sees too")
    container: ContainerSpec = Field(ContainerSpec(), description="the container, with runtime docker or podman")
    user: UserSpec = Field(UserSpec(), description="the account it runs as")
    packages: list[Package] = Field(
        default_factory=list, description="Debian packages it needs on its machine, beside those its kind brings"
    )
    working_directory: str = Field(
        "workspace", description="where it works: below its home in the state, or an absolute path that it may write to"
    )
    environment: dict[VariableName, str] = Field(default_factory=dict, description="variables that are no secrets")
    environment_files: list[Source] = Field(
        default_factory=list, description="sources that hold a whole dotenv: NAME=value lines"
    )
    secrets: dict[VariableName, Source] = Field(default_factory=dict, description="environment variables from outside")
    documents: dict[RelativePath, Document] = Field(
        default_factory=dict,
        description="texts by name: bare names go to the working directory, nested ones below its home in the state",
    )
    service: SupervisionSpec = Field(SupervisionSpec(), description="how it is kept running")
    expose: dict[
        str,
        Annotated[ExposeSpec, shorthand(ExposeSpec, "port", int, example="8642 or {port: 8642, address: 192.168.1.5}")],
    ] = Field(default_factory=dict, description="ports reachable from beyond the machine; without it none is")
    verify: VerifySpec = Field(VerifySpec(), description="how `up` sees that it answers")

    @model_validator(mode="before")
    @classmethod
    def _user_is_named_after_the_kind(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("kind"), str):
            user = data.get("user", {})
            if isinstance(user, dict):
                return {**data, "user": {"name": data["kind"], **user}}
        return data

    @field_validator("working_directory")
    @classmethod
    def _stays_below(cls, value: str) -> str:
        if not value or ".." in value.split("/"):
            raise ValueError("must be an absolute path, or one below the agent's home, without ..")
        return value

    def ports(self) -> dict[str, int]:
        """The ports its processes listen on, by the name `expose` knows them under."""
        return {}

    def port_key(self, port: str) -> Location:
        """Where in its part of the file the number of a named port is written."""
        raise NotImplementedError

    def listens_on(self, port: str) -> str:
        """The address the process behind a named port binds: loopback unless it is exposed."""
        return self.expose[port].address if port in self.expose else "127.0.0.1"

    def url(self, port: str) -> str:
        """Where the process behind a named port answers to its own machine."""
        address = ip_address(self.listens_on(port))
        host = "127.0.0.1" if address.is_unspecified else f"[{address}]" if address.version == 6 else str(address)
        return f"http://{host}:{self.ports()[port]}"

    def with_texts(self, text_of: Callable[[Path], str]) -> Self:
        """Return the agent with the contents of the files it names in place of their paths."""
        documents = {
            title: DocumentSpec(text=text_of(document.file)) if document.file else document
            for title, document in self.documents.items()
        }
        return self.model_copy(update={"documents": documents})
