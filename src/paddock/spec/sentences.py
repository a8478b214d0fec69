"""Turn pydantic's validation errors into messages for users."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from paddock.spec.egress import LIST, WORD
from paddock.spec.fields import PATTERNS
from paddock.spec.kinds import AgentKind, Kinds
from paddock.spec.names import keys, model_at, unknown_key
from paddock.spec.tree import Location, Tree

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
