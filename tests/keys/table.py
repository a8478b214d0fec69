"""The table of keys, tests/data/keys.yaml, as rows."""

from __future__ import annotations

import json
import pickle
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any

from ruamel.yaml import YAML

from cases import DATA
from keys.schema import Key
from keys.shapes import AGENT, Shape
from paddock.file.models.whole import Spec

_TABLE = YAML(typ="safe").load((DATA / "keys.yaml").read_text())


@dataclass(frozen=True)
class Row:
    """One key with a value, and the observable that the value changes."""

    key: str
    value: Any
    shows: str
    only: str = ""  # the row is for shapes with these words
    beside: Mapping[str, Any] = field(default_factory=dict)  # other keys that this one needs
    without: Sequence[str] = ()  # keys that contradict this one, which only the first file has
    refused: Mapping[str, str] = field(default_factory=dict)  # words of shapes, with the sentence of `check`

    def covers(self, key: Key) -> bool:
        """Whether the row is about a key of the schema."""
        path = path_of(self.key)
        return len(path) == len(key) and all(
            part == name or name == "*" or (name == "[]" and part.isdecimal())
            for part, name in zip(path, key, strict=True)
        )

    def sentence(self, shape: Shape) -> str | None:
        """Return the sentence with which `check` is to refuse the key in a shape."""
        return next((sentence for words, sentence in self.refused.items() if shape.has(words)), None)

    def files(self, shape: Shape) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return two files that differ in this key only."""
        before = with_keys_beside(shape.file, self)
        return before, edited(before, self)


def with_keys_beside(file: dict[str, Any], *changed: Row) -> dict[str, Any]:
    """Return a file with the keys that rows need."""
    found: dict[str, Any] = _copied(file)
    for row in changed:
        for key, value in row.beside.items():
            _put(found, path_of(key), value)
    return found


def edited(file: dict[str, Any], *changed: Row) -> dict[str, Any]:
    """Return a file with the values of rows."""
    found: dict[str, Any] = _copied(file)
    for row in changed:
        for key in row.without:
            _remove(found, path_of(key))
        _put(found, path_of(row.key), row.value)
    return found


def rows() -> list[Row]:
    """Return all rows."""
    return list(_rows())


def _rows() -> Iterator[Row]:
    for group in chain.from_iterable(map(_spread, _TABLE["groups"])):
        shared = [_TABLE["refusals"][name] for name in group.get("refuses", ())]
        refused = dict(ChainMap(group.get("refused", {}), *shared))
        for key, value in group["keys"].items():
            more = {name: group[name] for name in ("only", "beside", "without") if name in group}
            yield Row(key, value, group["shows"], refused=refused, **more)


def _spread(group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a group once for each of its names, which take the place of NAME."""
    for name in group.get("each", ["NAME"]):
        text = json.dumps(group).replace("NAME", name)
        yield json.loads(text)


@cache
def path_of(key: str) -> Key:
    """Return the path of a key in the file; a key of no other part is the agent's."""
    parts = tuple(key.split("."))
    return parts if parts[0] in Spec.model_fields else ("agents", AGENT, *parts)


def _put(data: Any, path: Key, value: Any) -> None:
    for part in path[:-1]:
        data = data[int(part)] if isinstance(data, list) else data.setdefault(part, {})
    data[path[-1]] = _copied(value)


def _copied(data: Any) -> Any:
    """Return a deep copy, in a third of the time of `copy.deepcopy`."""
    return pickle.loads(pickle.dumps(data))


def _remove(data: Any, path: Key) -> None:
    for part in path[:-1]:
        data = data.get(part, {})
    data.pop(path[-1], None)
