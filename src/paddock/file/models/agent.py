"""The part of the file that agents of every kind have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field, field_validator, model_validator

from paddock.file.models.backup import BackupSpec
from paddock.file.models.fields import (
    IpAddress,
    LocalPath,
    Model,
    Name,
    Package,
    Port,
    RelativePath,
    VariableName,
    no_items,
    no_keys,
    shorthand,
)
from paddock.file.models.machine import ContainerSpec, MachineSpec, MountSpec, StateSpec
from paddock.file.models.network import NetworkSpec
from paddock.file.models.quantities import Duration
from paddock.file.secrets.sources import Source
from paddock.file.tree import Location

_PATH: Final = re.compile(r"(\.{0,2}|~)/[\w./-]+")


class RuntimeName(StrEnum):
    SYSTEMD = "systemd"
    DOCKER = "docker"
    PODMAN = "podman"
    PROCESS = "process"

    @property
    def is_engine(self) -> bool:
        return self in {RuntimeName.DOCKER, RuntimeName.PODMAN}


class Restart(StrEnum):
    """When a process that has ended is started again, in the words of systemd."""

    ALWAYS = "always"
    ON_SUCCESS = "on-success"
    ON_FAILURE = "on-failure"
    ON_ABNORMAL = "on-abnormal"
    ON_ABORT = "on-abort"
    ON_WATCHDOG = "on-watchdog"
    NO = "no"


class UserSpec(Model):
    """The account the agent runs as; it has no sudo and no password."""

    name: Name = Field("agent", description="name of the account; without it the name of the agent's kind")
    uid: int = Field(10000, ge=1000, le=60000, description="user id of the account and of the files in the state")
    group: Name | None = Field(None, description="name of its group; without it the name of the account")
    gid: int | None = Field(None, ge=1000, le=60000, description="group id; without it the same number as uid")
    create: bool = Field(True, description="whether Paddock creates the account; false: it must exist already")

    @property
    def group_name(self) -> str:
        return self.group or self.name

    @property
    def described(self) -> str:
        """The account as machines report it: NAME:GROUP:UID:GID."""
        return f"{self.name}:{self.group_name}:{self.uid}:{self.uid if self.gid is None else self.gid}"


class SupervisionSpec(Model):
    """How the agent's processes are kept running."""

    restart: Restart = Field(
        Restart.ALWAYS,
        strict=False,
        description="after which ends a process is started again, as systemd's Restart= says; on-abnormal and on-abort:"
        " after a crash; on-watchdog: never, because no watchdog is used",
    )
    restart_delay: Duration = Field(Duration.parse("5s"), description="pause before a restart of a process")
    args: list[str] = Field(default_factory=no_items, description="more arguments for the agent's main program")

    @field_validator("restart", mode="before")
    @classmethod
    def _not_of_compose(cls, value: Any) -> Any:
        if value == "unless-stopped":
            raise ValueError(
                "unless-stopped is a word of Docker; write always: what `paddock down` has stopped stays down"
            )
        return value


class DocumentSpec(Model):
    """A text file for the agent, written here or taken from another file."""

    text: str | None = Field(None, description="the text; a plain text stands for this")
    file: LocalPath | None = Field(None, description="file to read the text from")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.text is None) == (self.file is None):
            raise ValueError("a document is its text, or {file: ./PATH}")
        if self.text is not None and _PATH.fullmatch(self.text):
            raise ValueError(f"{self.text} is a path and no text; write {{file: {self.text}}}")
        return self


class ExposeSpec(Model):
    """A port that other machines can reach."""

    port: Port | None = Field(
        None,
        description="port number; without it the agent's own port of this name",
    )
    address: IpAddress = Field("0.0.0.0", description="address to listen on")  # noqa: S104  its purpose is to expose


class VerifySpec(Model):
    """How ``up`` checks that the agent answers."""

    prompt: str = Field("Say ok.", min_length=1, description="prompt that `up` sends to the agent")
    timeout: Duration = Field(Duration.parse("90s"), description="how long the agent may take to become healthy")


Document = Annotated[DocumentSpec, shorthand(DocumentSpec, "text", str, example="a text, or {file: ./SOUL.md}")]


class AgentSpec(Model):
    """The keys that agents of every kind have."""

    # Facts about a kind for the rules of the file; a kind overrides them.
    #
    # Keys whose texts another program reads and replaces ${NAME} in. The value is the remedy for a secret there. It is
    # None for keys in which only the value, never a name, can show that a text is a secret.
    expanded: ClassVar[Mapping[str, str | None]] = {"documents": None, "service": None, "verify": None}
    # What other tools call a key, in lower case letters only or by its path, with the key's path in this file.
    names_elsewhere: ClassVar[Mapping[str, str]] = {
        "backend": "runtime",
        "container.enable": "runtime",
        "container.gpus": "container.options",
        "cpu": "machine.cores",
        "createuser": "user.create",
        "datastore": "machine.storage",
        "dedicated": "machine.memory",
        "deploy": "container.memory",
        "disksize": "machine.disk",
        "dnsservers": "machine.dns",
        "docker": "runtime",
        "enable": "enabled",
        "env": "environment",
        "envfile": "environment_files",
        "extraargs": "service.args",
        "extraoptions": "container.options",
        "extrapackages": "packages",
        "extravolumes": "container.volumes",
        "ip": "machine.net",
        "keyctl": "machine.features",
        "limits": "container.memory",
        "machine.cpus": "machine.cores",
        "machine.name": "machine.hostname",
        "machine.net.ip": "machine.net.address",
        "memlimit": "container.memory",
        "mountpoint": "mounts",
        "mountpoints": "mounts",
        "mp": "mounts",
        "nameserver": "machine.dns",
        "nesting": "machine.features",
        "net": "machine.net",
        "networkbridge": "machine.net.bridge",
        "networkinterface": "machine.net",
        "nodename": "machine.node",
        "onboot": "machine.start_on_boot",
        "ports": "expose",
        "ram": "machine.memory",
        "restartpolicy": "service.restart",
        "restartsec": "service.restart_delay",
        "rootfs": "machine.disk",
        "state.datastore": "state.storage",
        "state.dir": "state.path",
        "state.directory": "state.path",
        "state.disk": "state.size",
        "state.pet_vmid": "state.pet",
        "state.vm_id": "state.pet",
        "state.vmid": "state.pet",
        "statedir": "state.path",
        "vmid": "machine.vmid",
        "workspace": "working_directory",
    }
    # What other tools have and agents of this kind have not, in lower case letters or by its path, with what to do.
    not_keys: ClassVar[Mapping[str, str]] = {
        "container.name": "a container is named after the project and the agent",
        "containername": "a container is named after the project and the agent",
        "networkmode": "network: says what the agent may reach, and expose: which of its ports others reach",
        "operatingsystem": "the system of a machine is the `base` of its place",
        "ostemplate": "the system of a machine is the `base` of its place",
        "privileged": "machines and containers are never privileged",
        "protection": "the pet, which owns the state, is always protected",
        "templatefileid": "the system of a machine is the `base` of its place",
        "unprivileged": "machines and containers are always unprivileged",
    }
    # Keys that have no effect in containers, with a sentence for each.
    not_in_containers: ClassVar[Mapping[str, str]] = {}
    # Keys that an image with the agent's code decides, with a sentence for each. None: no image has this kind's code.
    decided_by_image: ClassVar[Mapping[str, str] | None] = None
    # Keys of every agent that have no effect on this kind, with the reason.
    without_effect: ClassVar[Mapping[str, str]] = {}
    # The name of the port that serves models to other agents.
    models_port: ClassVar[str | None] = None

    kind: str = Field(description="what the agent is")
    enabled: bool = Field(True, description="false: Paddock does not change the agent, whether it runs or not")
    place: str = Field(description="name of a place in this file")
    runtime: RuntimeName = Field(
        RuntimeName.SYSTEMD,
        strict=False,
        description="what runs and supervises the agent: systemd, docker, podman or process",
    )
    machine: MachineSpec = Field(
        MachineSpec.model_construct(), description="the machine the agent runs on; on a host the limits of its units"
    )
    state: StateSpec = Field(StateSpec.model_construct(), description="the agent's precious files: what it has learned")
    mounts: list[MountSpec] = Field(
        default_factory=no_items, description="directories of the host that the agent can use"
    )
    container: ContainerSpec = Field(
        ContainerSpec.model_construct(), description="the container the agent runs in, with runtime docker or podman"
    )
    user: UserSpec = Field(
        UserSpec.model_construct(),
        description="the account the agent runs as; change its name and its numbers together",
    )
    packages: list[Package] = Field(
        default_factory=no_items,
        description="more packages of the distribution to install, beside those that the agent's kind needs",
    )
    working_directory: str = Field(
        "workspace",
        description="directory the agent works in: below its home in the state, or an absolute path it may write to",
    )
    environment: dict[VariableName, str] = Field(
        default_factory=no_keys, description="environment variables that are not secret"
    )
    environment_files: list[Source] = Field(
        default_factory=no_items, description="sources of secret environment variables, each with NAME=value lines"
    )
    secrets: dict[VariableName, Source] = Field(
        default_factory=no_keys, description="secret environment variables, each with the source of its value"
    )
    documents: dict[RelativePath, Document] = Field(
        default_factory=no_keys,
        description="text files by path: bare names go to the working directory, or to where the agent's kind reads"
        " a file of this name; paths with / are below the agent's home",
    )
    service: SupervisionSpec = Field(
        SupervisionSpec.model_construct(), description="how the agent's processes are kept running"
    )
    expose: dict[
        str,
        Annotated[ExposeSpec, shorthand(ExposeSpec, "port", int, example="8642 or {port: 8642, address: 192.168.1.5}")],
    ] = Field(default_factory=no_keys, description="ports that other machines can reach; without it there are none")
    network: NetworkSpec = Field(NetworkSpec.model_construct(), description="what the agent may reach over the network")
    verify: VerifySpec = Field(VerifySpec.model_construct(), description="how `up` checks that the agent answers")
    backup: BackupSpec | None = Field(None, description="backups of the agent's state; without it there are none")

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

    def document_path(self, name: str) -> str:
        """Return the path of a document: bare names are in the working directory, paths below the home."""
        return name if "/" in name else f"{self.working_directory}/{name}"

    @property
    def image_brings_code(self) -> bool:
        """Whether the agent's code is in the image of its container."""
        return self.runtime.is_engine and self.container.image is not None

    @property
    def model_gateway(self) -> str | None:
        """The name of the agent in this file that serves models to this agent, if any."""
        return None

    def ports(self) -> dict[str, int]:
        """Return the ports its processes listen on, by the names that `expose` uses."""
        return {}

    def port_key(self, port: str) -> Location:
        """Return the location, in the agent's part of the file, of a named port. A kind with ports overrides it."""
        raise NotImplementedError

    def listens_on(self, port: str) -> str:
        """Return the address that a named port is bound to: loopback unless the port is exposed."""
        return self.expose[port].address if port in self.expose else "127.0.0.1"

    def url(self, port: str) -> str:
        """Return the URL of a named port for programs on the agent's machine."""
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
