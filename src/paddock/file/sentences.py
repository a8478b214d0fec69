"""Turn pydantic's validation errors into messages for users, with suggestions for misspelled keys."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from paddock.file.kinds import AgentKind, Kinds
from paddock.file.models.fields import PATTERNS
from paddock.file.models.network import LIST, WORD
from paddock.file.models.whole import Spec
from paddock.file.tree import Location, Tree

_TYPES: Final = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "list_type": "a list, like [a, b]",
    "path_type": "a path",
}


def mistakes(error: ValidationError, tree: Tree, kinds: Kinds[AgentKind]) -> Iterator[tuple[Location, str]]:
    """Yield the location and the message of each mistake."""
    for detail in error.errors(include_url=False):
        location = _location(detail, tree, kinds)
        if detail["type"] in {"union_tag_invalid", "union_tag_not_found"}:
            location = (*location, "kind")
        yield location, _sentence(detail, location, tree, kinds)


def _location(detail: ErrorDetails, tree: Tree, kinds: Kinds[AgentKind]) -> Location:
    location = tuple(str(part) for part in detail["loc"] if part not in {LIST, WORD})
    if location[:1] == ("agents",) and len(location) > 2 and location[2] in kinds:
        location = location[:2] + location[3:]  # pydantic adds the kind that selected the model
    if location[-1:] == ("[key]",) and location not in tree.origins:
        return location[:-1]  # pydantic means the key, not its value
    return location


def _sentence(detail: ErrorDetails, location: Location, tree: Tree, kinds: Kinds[AgentKind]) -> str:
    context: dict[str, Any] = detail.get("ctx", {})
    # Messages never repeat a value: it may be a secret.
    match detail["type"]:
        case "extra_forbidden":
            return unknown_key(location, tree, kinds)
        case "missing":
            return _missing(location, tree, kinds)
        case "value_error":
            return str(context["error"])
        case "string_pattern_mismatch":
            return f"must be {PATTERNS[context['pattern']]}"
        case "union_tag_not_found":
            return f"is missing: one of {', '.join(kinds)}"
        case "union_tag_invalid":
            return _one_of(list(kinds), detail["input"].get("kind"))
        case "enum" | "literal_error":
            return _one_of(_choices(location, tree, kinds), detail["input"])
        case "greater_than_equal":
            return f"must be at least {context['ge']}"
        case "greater_than":
            return f"must be more than {context['gt']:g}"
        case "less_than_equal":
            return f"must be at most {context['le']}"
        case "too_short" | "string_too_short":
            return "must not be empty"
        case kind if kind in _TYPES:
            return _wrong_type(_TYPES[kind], detail["input"])
        case _:
            message = detail["msg"]
            return message[:1].lower() + message[1:]


def _missing(location: Location, tree: Tree, kinds: Kinds[AgentKind]) -> str:
    model = model_at(location[:-1], tree, kinds)
    field = keys(model).get(location[-1]) if model else None
    return f"is missing: {field.description}" if field and field.description else "is missing"


def _choices(location: Location, tree: Tree, kinds: Kinds[AgentKind]) -> list[str]:
    """Return the values that a key accepts, from its type."""
    while location and location[-1].isdecimal():
        location = location[:-1]
    model = model_at(location[:-1], tree, kinds)
    field = keys(model).get(location[-1]) if model and location else None
    return [str(member.value) for member in _enum_in(field.annotation)] if field else []


def _enum_in(annotation: Any) -> list[Enum]:
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return list(annotation)
    return [member for each in getattr(annotation, "__args__", ()) for member in _enum_in(each)]


def _one_of(choices: list[str], given: Any) -> str:
    near = difflib.get_close_matches(str(given), choices, n=1)
    return f"must be one of {', '.join(choices)}" + (f"; did you mean {near[0]!r}?" if near else "")


def _wrong_type(expected: str, given: Any) -> str:
    if given is None:
        return f"is empty; it must be {expected}"
    match given:
        case bool():
            found = "true or false"
        case int() | float():
            found = "a number"
        case str():
            found = "a text"
        case list():
            found = "a list"
        case _:
            found = "a mapping"
    quotes = "; put quotes around it" if expected == "a text" and isinstance(given, bool | int | float) else ""
    return f"must be {expected}, not {found}{quotes}"


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
