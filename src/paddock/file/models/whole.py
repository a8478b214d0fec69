"""The model of a whole paddock.yaml, and the models of its parts that other modules use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, model_validator

from paddock.file.models.agent import AgentSpec, Restart, RuntimeName, UserSpec
from paddock.file.models.fields import Model, Name, no_keys
from paddock.file.models.machine import MachineSpec, StateSpec
from paddock.file.models.place import HostSpec, PlaceSpec, ProxmoxSpec, Scope
from paddock.file.secrets.sources import Source

__all__ = [
    "AgentSpec",
    "HostSpec",
    "MachineSpec",
    "Model",
    "PlaceSpec",
    "ProxmoxSpec",
    "Restart",
    "RuntimeName",
    "Scope",
    "Spec",
    "StateSpec",
    "UserSpec",
]


class NotifySpec(Model):
    """Who hears of failed and overdue backups and of failed drills: exactly one of these."""

    command: list[str] | None = Field(
        None,
        min_length=1,
        description="a command that gets one JSON object on its input, run without a shell; a path starts at the file",
    )
    url: Source | None = Field(
        None, description="source of a URL that gets the same JSON with POST; a source, because such URLs are secret"
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("needs exactly one of command and url")
        return self


class Spec(Model):
    """A whole paddock.yaml."""

    # Validators are built on first use: this model itself is only a base for the models of ``Kinds``.
    model_config = ConfigDict(defer_build=True)

    project: Name = Field(
        description="whose agents these are: agents of one name in two projects are two agents; do not change it later"
    )
    places: dict[Name, PlaceSpec] = Field(description="where machines are, by name of the place")
    defaults: dict[str, Any] = Field(
        default_factory=no_keys,
        description="values for all agents, merged into each agent in which they have an effect; the agent's own values"
        " win; values that no agent can have are an error",
    )
    agents: dict[Name, AgentSpec] = Field(description="what should run, by name of the agent")
    notify: NotifySpec | None = Field(
        None, description="who hears of failed and overdue backups and of failed drills; without it nobody"
    )


def neighbours(agent: str, file: Spec) -> list[str]:
    """Return addresses and host names that an agent does not need, unless one of its own keys names them."""
    places = (host for place in file.places.values() for host in _hosts(place))
    others = (spec.machine.net.address for name, spec in file.agents.items() if name != agent)
    stated = (address.partition("/")[0] for address in others if address != "dhcp")
    return sorted({*places, *stated})


def _hosts(place: PlaceSpec) -> Iterator[str]:
    if place.proxmox is not None and (host := urlsplit(place.proxmox.url).hostname):
        yield host
    if place.host is not None and place.host.address is not None:
        yield place.host.address
