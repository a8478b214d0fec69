"""The keys of the file, read from its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from paddock.file.schema import json_schema
from paddock.kinds import KINDS

Key = tuple[str, ...]  # * stands for a name that the user chooses, [] for a position in a list

SOURCES = ("agents", "*", "secrets", "*")  # keys of a source are walked here; everywhere else a source is one value


@cache
def keys(kind: str) -> frozenset[Key]:
    """Return every key that holds a value, in a file with an agent of this kind."""
    schema = json_schema(KINDS)
    return frozenset(_leaves(schema, schema["$defs"], (), KINDS.models[kind].__name__))


def _leaves(part: dict[str, Any], parts: dict[str, Any], path: Key, agent: str) -> Iterator[Key]:
    """Yield the keys below a part of the schema; the part's own key if it has none."""
    if path == ("agents", "*"):
        part = parts[agent]
    if path == ("defaults",):  # has the keys of agents, which are walked there
        part = {}
    below = {path + step: each for step, each in _below(part, parts, path)}
    for key, each in below.items():
        yield from _leaves(each, parts, key, agent)
    if not below:
        yield path


def _below(part: dict[str, Any], parts: dict[str, Any], path: Key) -> Iterator[tuple[Key, dict[str, Any]]]:
    if reference := part.get("$ref"):
        name = reference.rpartition("/")[2]
        if name != "Source" or path == SOURCES:
            yield from _below(parts[name], parts, path)
    for choice in (*part.get("anyOf", ()), *part.get("oneOf", ()), *part.get("allOf", ())):
        yield from _below(choice, parts, path)
    yield from (((name,), each) for name, each in part.get("properties", {}).items())
    named = [part.get("additionalProperties"), *part.get("patternProperties", {}).values()]
    for step, each in (*(("*", each) for each in named), ("[]", part.get("items"))):
        if isinstance(each, dict) and any(_below(each, parts, (*path, step))):
            yield (step,), each
