"""The keys of agents of kind ``service``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from paddock.spec.agent import AgentSpec
from paddock.spec.fields import Argv, Model, Port, worded


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
