"""Options of the file that Paddock does not support yet: reported, never ignored."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from pydantic import BaseModel

from paddock.errors import BadInput
from paddock.spec.load import Loaded
from paddock.spec.models import Spec

Location = tuple[str, ...]

# Paths of keys of places and agents that are not supported yet; a path includes everything below it.
NOT_YET: Final = frozenset[str]()


def unsupported(spec: Spec) -> list[tuple[Location, str]]:
    """Return the locations of options that are not supported yet, with messages."""
    found: list[tuple[Location, str]] = []
    for name, place in spec.places.items():
        found += [(("places", name, *path), "is not supported yet") for path in _not_yet(place, NOT_YET)]
    for name, agent in spec.agents.items():
        found += [(("agents", name, *path), "is not supported yet") for path in _not_yet(agent, NOT_YET)]
    return found


def supported(loaded: Loaded, only: Collection[str] = ()) -> Loaded:
    """Return the file if Paddock supports all options of these agents, or of all enabled ones; else raise an error."""
    agents = loaded.chosen(only)
    concerned = {("agents", name) for name in agents} | {("places", agent.place) for agent in agents.values()}
    lacking = [(location, what) for location, what in unsupported(loaded.spec) if location[:2] in concerned]
    if lacking:
        raise BadInput(
            "\n".join(loaded.told(lacking)), hint="remove these options; this version of Paddock would ignore them"
        )
    return loaded


def _not_yet(model: BaseModel, keys: Collection[str]) -> Iterator[Location]:
    if not keys:
        return  # comparing every key with its default takes time
    for path in _changed(model):
        for length in range(1, len(path) + 1):
            if ".".join(path[:length]) in keys:
                yield path[:length]
                break


def _changed(model: BaseModel, above: Location = ()) -> Iterator[Location]:
    """Yield the paths of keys whose value is not the default."""
    for name, field in type(model).model_fields.items():
        value: Any = getattr(model, name)
        default = field.get_default(call_default_factory=True) if not field.is_required() else None
        if value == default:
            continue
        path = (*above, field.alias or name)
        below = list(_changed(value, path)) if isinstance(value, BaseModel) else []
        yield from below or [path]
