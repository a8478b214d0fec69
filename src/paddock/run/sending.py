"""The program that sends the state of an agent, for a guest to run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from paddock.run.resolve import Located
from paddock.runtimes.program import program

_MODULES: Final = ("layout", "folders", "sparse", "database", "send")


def about(agent: Located) -> dict[str, str | None]:
    """Return what a backup says about its agent."""
    return {"agent": str(agent.id), "kind": agent.spec.kind, "version": getattr(agent.spec, "version", None)}


def sender(
    agent: Located,
    said: Mapping[str, str | None],
    *,
    only: Sequence[str] | None = None,
    examine: bool = False,
) -> list[str]:
    """Return the argv that writes the state as a stream. ``only`` limits it to some files.

    With ``examine`` the manifest names databases that SQLite finds damaged.
    """
    keeping = agent.recipe.keeping(agent.spec)
    order = {
        "home": agent.paths.home,
        "staging": agent.paths.state,
        "rebuilt": list(keeping.rebuilt),
        "databases": list(keeping.databases),
        "growing": list(keeping.growing),
        "about": dict(said),
        "examine": examine,
        **({"only": list(only)} if only is not None else {}),
    }
    return ["python3", "-I", "-c", program(*(f"paddock.stream.{name}" for name in _MODULES)), json.dumps(order)]
