"""The output of ``paddock check``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paddock.base.errors import BadInput
from paddock.base.text import counted
from paddock.file.kinds import AgentKind, Kinds
from paddock.file.load import FileMistakes, Loaded, load
from paddock.file.referenced import inlined


def checked(files: Sequence[Path], sets: Sequence[str], kinds: Kinds[AgentKind]) -> Loaded:
    """Load a file that `up` can use. Other verbs also use files that lack something, such as a lock, to create it."""
    loaded = load(*files, sets=sets, kinds=kinds)
    folder = loaded.path.parent
    lacking = [
        (loaded.tree.origin(("agents", name, *location)), sentence)
        for name, agent in loaded.chosen().items()
        for location, sentence in kinds[agent.kind].unready(inlined(agent, folder), folder)
    ]
    if lacking:
        raise FileMistakes(lacking)
    return loaded


def summary(loaded: Loaded) -> str:
    """Return a line about a valid file."""
    spec = loaded.spec
    return f"{loaded.path.name}: {counted(len(spec.agents), 'agent')} in {counted(len(spec.places), 'place')}"


def as_data(files: Sequence[Path], sets: Sequence[str], kinds: Kinds[AgentKind]) -> dict[str, Any]:
    """Return the result of ``check`` as data, with the file's mistakes."""
    try:
        loaded = checked(files, sets, kinds)
    except FileMistakes as error:
        return {"ok": False, "mistakes": [origin.as_data() | {"what": what} for origin, what in error.found]}
    except BadInput as error:
        return {"ok": False, "mistakes": [{"what": error.message}]}
    return {
        "ok": True,
        "places": {name: place.key for name, place in loaded.spec.places.items()},
        "agents": {
            name: {"kind": agent.kind, "place": agent.place, "runtime": agent.runtime, "enabled": agent.enabled}
            for name, agent in loaded.spec.agents.items()
        },
    }
