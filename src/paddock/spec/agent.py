"""One agent: what every kind has, and what hermes, litellm and service have of their own."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, field_validator, model_validator

from paddock.spec.durations import Duration
from paddock.spec.fields import (
    Argv,
    LocalPath,
    Model,
    Name,
    Package,
    Port,
    RelativePath,
    VariableName,
    Version,
    shorthand,
    worded,
)
from paddock.spec.machine import ContainerSpec, MachineSpec, MountSpec, StateSpec
from paddock.spec.secrets import Source
from paddock.spec.talk import ConnectorsSpec, DashboardSpec, ExposeSpec, McpServerSpec, VerifySpec


class Kind(StrEnum):
    HERMES = "hermes"
    LITELLM = "litellm"
    SERVICE = "service"


class RuntimeName(StrEnum):
    SYSTEMD = "systemd"
    DOCKER = "docker"
    PODMAN = "podman"
    PROCESS = "process"

    @property
    def is_engine(self) -> bool:
        return self in {RuntimeName.DOCKER, RuntimeName.PODMAN}


class Managed(StrEnum):
    STRICT = "strict"
    PINNED = "pinned"


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


class AuthSpec(Model):
    """Credentials the agent refreshes by itself (auth.json), seeded once."""

    source: Source = Field(alias="from", description="where the first version comes from, whole")
    overwrite: bool = Field(
        False, description="whether it is put back whenever the agent is configured, and refreshed tokens are lost"
    )


class HealthSpec(Model):
    """How to see that a service is healthy: a URL, a port, or a command that ends with 0; without it, that it runs."""

    http: str | None = Field(
        None,
        pattern=worded(
            r"^http://(127\.0\.0\.1|localhost|\[::1\]):\d+(/\S*)?$", "a URL on loopback: http://127.0.0.1:PORT/PATH"
        ),
        description="URL on the machine's loopback that must answer",
    )
    status: int = Field(200, ge=100, le=599, description="status the URL must answer with")
    port: Port | None = Field(None, description="port on loopback that must accept connections")
    command: Argv | None = Field(None, description="command that must end with 0, run as the agent's user")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if [self.http, self.port, self.command].count(None) < 2:
            raise ValueError("health is one of http:, port: and command:")
        return self


Document = Annotated[DocumentSpec, shorthand(DocumentSpec, "text", str, example="a text, or {file: ./SOUL.md}")]


class AgentSpec(Model):
    """What every kind of agent has: what it is, where it runs, what it knows and may use."""

    kind: Kind = Field(strict=False, description="hermes, litellm or service")
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

    def listens_on(self, port: str) -> str:
        """The address the process behind a named port binds: loopback unless it is exposed."""
        return self.expose[port].address if port in self.expose else "127.0.0.1"

    def url(self, port: str) -> str:
        """Where the process behind a named port answers to its own machine."""
        address = ip_address(self.listens_on(port))
        host = "127.0.0.1" if address.is_unspecified else f"[{address}]" if address.version == 6 else str(address)
        return f"http://{host}:{self.ports()[port]}"


class _Packaged(AgentSpec):
    """A kind whose code is a Python package, and which has a configuration of its own."""

    version: Version | None = Field(None, description="version from the package index")
    package: LocalPath | None = Field(None, description="a wheel or source folder to install instead of a version")
    extras: list[str] = Field(
        default_factory=list, description="extras of the package; connectors and mcp_servers bring theirs"
    )
    settings: dict[str, Any] = Field(default_factory=dict, description="its own configuration, whatever it knows")
    config_file: LocalPath | None = Field(None, description="a YAML file with its configuration, instead of settings")

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.version is None and self.package is None:
            raise ValueError("say which code: version: or package:")
        if self.version is not None and self.package is not None:
            raise ValueError("version and package are two origins of the code; keep one")
        if self.config_file is not None and self.settings:
            raise ValueError("settings and config_file are two origins of one configuration; keep one")
        return self


class HermesSpec(_Packaged):
    """Nous Research's Hermes Agent."""

    kind: Literal[Kind.HERMES] = Field(description="hermes")
    connectors: ConnectorsSpec = Field(ConnectorsSpec(), description="the ways to talk to it")
    gateway: Name | None = Field(None, description="an agent of kind litellm in this file that gives it models")
    mcp_servers: dict[str, McpServerSpec] = Field(default_factory=dict, description="tools it may use, by name")
    auth: AuthSpec | None = Field(None, description="OAuth credentials (auth.json) to begin with")
    dashboard: Annotated[DashboardSpec, shorthand(DashboardSpec, "enabled", bool, example="true or {port: 9119}")] = (
        Field(DashboardSpec(enabled=False), description="its web page: true, or a mapping")
    )
    managed: Managed = Field(
        Managed.STRICT,
        strict=False,
        description="strict: only this file configures it; pinned: only what this file sets is fixed",
    )
    browser: bool = Field(False, description="whether it gets a browser (chromium) for its tools")
    cli_on_path: bool = Field(False, description="whether `hermes` is a command for everyone on the machine")

    def ports(self) -> dict[str, int]:
        ports = {"api_server": self.connectors.api_server.port}
        return ports | ({"dashboard": self.dashboard.port} if self.dashboard.enabled else {})


MASTER_KEY = "LITELLM_MASTER_KEY"  # LiteLLM's own name for the key that opens all of it


class LitellmSpec(_Packaged):
    """The LiteLLM proxy: one door to many models."""

    kind: Literal[Kind.LITELLM] = Field(description="litellm")
    port: Port = Field(4000, description="port it listens on")

    def ports(self) -> dict[str, int]:
        return {"proxy": self.port}


class ServiceSpec(AgentSpec):
    """Anything else that should run: packages and a command."""

    kind: Literal[Kind.SERVICE] = Field(description="service")
    command: Argv = Field(description="program and arguments; no shell")
    health: HealthSpec = Field(HealthSpec(), description="how to see that it is healthy")


AnyAgent = Annotated[HermesSpec | LitellmSpec | ServiceSpec, Field(discriminator="kind")]
KINDS: dict[Kind, type[AgentSpec]] = {
    Kind.HERMES: HermesSpec,
    Kind.LITELLM: LitellmSpec,
    Kind.SERVICE: ServiceSpec,
}

_any_agent: TypeAdapter[AgentSpec] = TypeAdapter(AnyAgent)


def agent_from(data: Any) -> AgentSpec:
    """Return the agent a mapping describes, as its kind's own model."""
    return _any_agent.validate_python(data)
