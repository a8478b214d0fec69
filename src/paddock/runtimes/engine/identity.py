"""The identity of a container: settings whose change requires a new container. Other changes need only a restart."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

_SCHEMA: Final = 1  # a new number recreates every container; use one only if older containers would not work

LABEL: Final = "paddock.identity"
AGENT_LABEL: Final = "paddock.agent"  # the id of the agent


def identity(parts: Mapping[str, Sequence[str]]) -> str:
    """Return the container's label: a short hash of each part, so that a plan can name the changed part."""
    words = [f"{name}={digest(values)}" for name, values in sorted(parts.items())]
    return " ".join([f"schema={_SCHEMA}", *words])


def digest(values: Sequence[str]) -> str:
    """Return a short hash of a list of strings."""
    return hashlib.sha256("\0".join(values).encode()).hexdigest()[:12]
