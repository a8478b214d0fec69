"""How one agent of a file gives models to another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Offer:
    """What an agent has for others: models, behind one of its named ports."""

    port: str
    path: str
    key: str  # the secret that opens it


@dataclass(frozen=True)
class ModelServer:
    """Where an agent gets its models from: another agent, as it reaches it."""

    name: str
    url: str
    key: str = "LITELLM_API_KEY"  # the secret it sends there
