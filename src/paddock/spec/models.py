"""What can be written in a paddock.yaml, as models that refuse what they do not know."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from paddock.spec.agent import AgentSpec, Restart, RuntimeName, UserSpec
from paddock.spec.fields import Model, Name
from paddock.spec.machine import MachineSpec, StateSpec
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

    # Built on first use: only models with the agents of certain kinds are, and they inherit this.
    model_config = ConfigDict(defer_build=True)

    places: dict[Name, PlaceSpec] = Field(description="where machines are, by name")
    defaults: dict[str, Any] = Field(
        default_factory=dict,
        description="what all agents have unless they say otherwise; merged into each agent whose kind knows the key",
    )
    agents: dict[Name, AgentSpec] = Field(description="what should run, by name")
