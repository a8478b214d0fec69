"""The kind ``service``: any program that is a command and Debian packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from paddock.file.models.agent import AgentSpec
from paddock.file.models.fields import Argv, Model, Port, worded
from paddock.kinds.contract import BaseRecipe
from paddock.kinds.endpoints import named_in
from paddock.kinds.keeping import Traces
from paddock.kinds.workload import (
    Command,
    OpenPort,
    Page,
    Paths,
    Probes,
    Process,
    StateFile,
    Workload,
    beyond_home,
    working_directory,
)


class HealthSpec(Model):
    """The health check of a service: a URL, a port or a command; without one, a running service is healthy."""

    http: str | None = Field(
        None,
        pattern=worded(
            r"^http://(127\.0\.0\.1|localhost|\[::1\]):\d+(/\S*)?$", "a URL on loopback: http://127.0.0.1:PORT/PATH"
        ),
        description="URL on the machine's loopback that must answer",
    )
    status: int = Field(200, ge=100, le=599, description="HTTP status that the URL must answer with")
    port: Port | None = Field(None, description="port on loopback that must accept connections")
    command: Argv | None = Field(None, description="command that must exit with 0, run as the agent's user")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if [self.http, self.port, self.command].count(None) < 2:
            raise ValueError("health must have exactly one of http:, port: and command:")
        return self


class ServiceSpec(AgentSpec):
    """Any other program: Debian packages and a command."""

    expanded: ClassVar[Mapping[str, str | None]] = {**AgentSpec.expanded, "command": None, "health": None}

    without_effect: ClassVar[Mapping[str, str]] = {
        "verify.prompt": "a service answers no prompts; health: says how it is checked",
    }

    kind: Literal["service"] = Field(description="service")
    command: Argv = Field(description="program and arguments, run without a shell")
    health: HealthSpec = Field(HealthSpec.model_construct(), description="how to check that the service is healthy")


class Service(BaseRecipe[ServiceSpec]):
    """The recipe of kind ``service``."""

    model = ServiceSpec

    def workload(self, agent: ServiceSpec, paths: Paths, tree: str) -> Workload:
        main = Process(
            name="main",
            argv=(*agent.command, *agent.service.args),
            environment={"HOME": paths.home, **agent.environment},
            directory=working_directory(agent, paths),
            stop_seconds=30,
            restart=agent.service.restart,
            restart_seconds=agent.service.restart_delay,
            writable=beyond_home(agent, paths),
        )
        return Workload(
            processes=(main,),
            files=(),
            directories=(agent.working_directory,),
            generated=(),
            state_files=tuple(
                StateFile(agent.document_path(name), document.text or "") for name, document in agent.documents.items()
            ),
            reaches=named_in(agent.command, agent.service.args, agent.environment),
        )

    def probes(self, agent: ServiceSpec, prompt: str, conversation: str) -> Probes:
        return Probes(_health(agent), prompt=None)

    def traces(self, agent: ServiceSpec) -> Traces:
        # Only the working directory of a program is known.
        return Traces((agent.working_directory,) if agent.working_directory.startswith("/") else ())


def _health(agent: ServiceSpec) -> Page | Command | OpenPort | None:
    health = agent.health
    if health.command:
        return Command(tuple(health.command))
    if health.port:
        return OpenPort(health.port)
    return Page(health.http, health.status) if health.http else None
