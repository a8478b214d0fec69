"""The model of a whole paddock.yaml, and the models of its parts that other modules use."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from paddock.spec.agent import AgentSpec, Restart, RuntimeName, UserSpec
from paddock.spec.fields import Model, Name, no_keys
from paddock.spec.machine import MachineSpec, StateSpec
from paddock.spec.notify import NotifySpec
from paddock.spec.place import HostSpec, PlaceSpec, ProxmoxSpec, Scope

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
