"""A service's part of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from paddock.spec.agent import AgentSpec
from paddock.spec.fields import Argv, Model, Port, worded


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


class ServiceSpec(AgentSpec):
    """Anything else that should run: packages and a command."""

    expanded: ClassVar[Mapping[str, str | None]] = {**AgentSpec.expanded, "command": None, "health": None}

    kind: Literal["service"] = Field(description="service")
    command: Argv = Field(description="program and arguments; no shell")
    health: HealthSpec = Field(HealthSpec(), description="how to see that it is healthy")
