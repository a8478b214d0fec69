"""What makes a container another one. Everything else reaches the one that is there, with a restart."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

_SCHEMA: Final = 1  # another one recreates every container: only when one made before would not work

LABEL: Final = "paddock.identity"


def identity(parts: Mapping[str, Sequence[str]]) -> str:
    """The container's label: a short hash of each part, so that a plan can tell which one has changed."""
    words = [f"{name}={digest(values)}" for name, values in sorted(parts.items())]
    return " ".join([f"schema={_SCHEMA}", *words])


def digest(values: Sequence[str]) -> str:
    """A short hash of some words."""
    return hashlib.sha256("\0".join(values).encode()).hexdigest()[:12]
