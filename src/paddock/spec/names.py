"""Find keys and models by path, and suggest a key for a misspelled one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from paddock.spec.kinds import AgentKind, Kinds
from paddock.spec.models import Spec
from paddock.spec.tree import Location, Tree


def keys(model: type[BaseModel]) -> dict[str, Any]:
    """Return the keys of a part of the file, with their fields."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model ``X`` in an annotation ``X``, ``X | None``, ``list[X]`` or ``dict[str, X]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := model_in(each))), None)


def model_at(location: Location, tree: Tree, kinds: Kinds[AgentKind]) -> type[BaseModel] | None:
    """Return the model of the part of the file at a location."""
    model: type[BaseModel] | None = Spec
    rest = location
    if location[:1] == ("agents",) and len(location) > 1:
        model, rest = kinds.model_of(location[1], tree), location[2:]
    names = 0  # how many of the next parts are names that the user chose, or positions in a list
    for part in rest:
        if names:
            names -= 1
        elif model is None or part not in (known := keys(model)):
            return None
        else:
            names = _depth(known[part].annotation)
            model = model_in(known[part].annotation)
    return model


def _depth(annotation: Any) -> int:
    """Return how many mappings and lists enclose the model in an annotation."""
    inner = [each for each in get_args(annotation) if model_in(each)]
    return (get_origin(annotation) in (dict, list)) + _depth(inner[0]) if inner else 0


def unknown_key(location: Location, tree: Tree, kinds: Kinds[AgentKind]) -> str:
    """Return the message about an unknown key, with a suggestion if there is one."""
    key, above = location[-1], location[:-1]
    model = model_at(above, tree, kinds)
    sentence = f"unknown key {key!r}"
    if model is None:
        return sentence
    known = list(keys(model))
    owner = next((kind for kind, other in kinds.models.items() if key in other.model_fields), None)
    if owner and len(location) == 3 and location[0] == "agents":
        return f"{sentence} for this kind; agents of kind {owner} have it"
    plain = re.sub(r"[^a-z]", "", key.lower())
    alike = {re.sub(r"[^a-z]", "", name.lower()): name for name in known}
    if plain in alike:
        return f"{sentence}; did you mean {alike[plain]!r}?"
    if location[0] == "agents" and len(location) > 2:
        agent = kinds.model_of(location[1], tree)
        path = ".".join(location[2:])
        if reason := agent.not_keys.get(path) or agent.not_keys.get(plain):
            return f"{sentence}: {reason}"
        names = agent.names_elsewhere
        own = key if key in keys(agent) else None  # the agent has it, and its part has not
        elsewhere = names.get(path) or own or names.get(plain) or next(_paths(agent, key), None)
        if elsewhere:
            return f"{sentence} here; did you mean {elsewhere!r} of the agent?"
        if key.isupper() and "_" in key:
            return f"{sentence}: variables of the agent are in environment:, those with a secret value in secrets:"
    if near := difflib.get_close_matches(key, known, n=1):
        return f"{sentence}; did you mean {near[0]!r}?"
    return f"{sentence}; known here: {', '.join(known)}" if len(known) <= 12 else sentence


def _paths(model: type[BaseModel] | None, wanted: str, above: Location = ()) -> Iterator[str]:
    """Yield the paths below a model that end with a key of that name. Entries of lists and mappings have no path."""
    for name, field in keys(model).items() if model else ():
        if name == wanted and above:
            yield ".".join((*above, name))
        if len(above) < 2 and not _depth(field.annotation):
            yield from _paths(model_in(field.annotation), wanted, (*above, name))
