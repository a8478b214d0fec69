"""What can be written in a paddock.yaml, as models that refuse what they do not know."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from paddock.spec.agent import (
    KINDS,
    AgentSpec,
    AnyAgent,
    HermesSpec,
    Kind,
    LitellmSpec,
    Managed,
    Restart,
    RuntimeName,
    ServiceSpec,
    UserSpec,
    agent_from,
)
from paddock.spec.fields import Model, Name
from paddock.spec.machine import MachineSpec, StateSpec
from paddock.spec.place import HostSpec, PlaceSpec, ProxmoxSpec, Scope

__all__ = [
    "KINDS",
    "AgentSpec",
    "HermesSpec",
    "HostSpec",
    "Kind",
    "LitellmSpec",
    "MachineSpec",
    "Managed",
    "Model",
    "PlaceSpec",
    "ProxmoxSpec",
    "Restart",
    "RuntimeName",
    "Scope",
    "ServiceSpec",
    "Spec",
    "StateSpec",
    "UserSpec",
    "agent_from",
]


class Spec(Model):
    """A whole paddock.yaml."""

    places: dict[Name, PlaceSpec] = Field(description="where machines are, by name")
    defaults: dict[str, Any] = Field(
        default_factory=dict,
        description="what all agents have unless they say otherwise; merged into each agent whose kind knows the key",
    )
    agents: dict[Name, AnyAgent] = Field(description="what should run, by name")
