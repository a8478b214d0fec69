"""YAML as plain values, with the position of each value in its file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from paddock.base.errors import BadInput
from paddock.base.frozen import frozen

Location = tuple[str, ...]

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_MOST_VALUES: Final = 20_000  # nested aliases could otherwise fill the memory
_DEEPEST: Final = 50
_PLAIN: Final = re.compile(r"[^\W.]([^\x00-\x20\x7f-\xa0.\"]*[^\W.])?")
_NO_TAGS: Final = "YAML tags (!…) are not supported; write a plain value"

# Words in messages of the YAML library, and the remedy for each.
_REMEDIES: Final = {
    "cannot start any token": "indent with spaces, not tabs, and quote values that begin with % @ or `",
    "mapping values are not allowed": "quote values that contain a colon and a space",
    "found undefined alias": "quote values that begin with *",
    "could not find expected ':'": "a key needs a colon after it",
    "expected <block end>": "compare the indentation of this line with the lines above",
    "unexpected end of stream": "a quote or bracket is not closed",
    "another document": "a file has one document; use -f twice for two files",
}


def dotted(path: Location) -> str:
    """Return the path with dots; parts with dots or control characters are quoted."""
    return ".".join(part if _PLAIN.fullmatch(part) else json.dumps(part) for part in path)


@dataclass(frozen=True, order=True)
class Origin:
    """Where a value was written: file, line, column and path."""

    file: str
    line: int = 0
    column: int = 0
    path: Location = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def as_data(self) -> dict[str, Any]:
        return {"file": self.file, "line": self.line, "column": self.column, "path": dotted(self.path)}


@frozen
class Tree:
    """The values of a file, the position of each one by its key path, and the mistakes found while reading."""

    data: Any
    origins: dict[Location, Origin] = field(default_factory=dict)
    mistakes: list[tuple[Origin, str]] = field(default_factory=list)

    def origin(self, location: Location) -> Origin:
        """Return the origin of a value, or of its nearest parent with an origin, with the path of the value."""
        for length in range(len(location), -1, -1):
            origin = self.origins.get(location[:length])
            if origin is not None:
                return Origin(origin.file, origin.line, origin.column, origin.path + location[length:])
        return Origin("file", 1, 1, location)

    def at(self, location: Location) -> Any:
        """Return the value at a path, or None."""
        node = self.data
        for part in location:
            if isinstance(node, dict):
                node = node.get(part)
            elif isinstance(node, list) and part.isdecimal() and int(part) < len(node):
                node = node[int(part)]
            else:
                return None
        return node

    def below(self, location: Location) -> Tree:
        """Return the part of the tree below a path."""
        length = len(location)
        origins = {path[length:]: origin for path, origin in self.origins.items() if path[:length] == location}
        return Tree(self.at(location), origins)


def read(text: str, name: str) -> Tree:
    """Return the values of a YAML text; messages call the text ``name``."""
    builder = _Builder(name)
    try:
        node = _composed(text, name)
        data = builder.value(node, ()) if node is not None else None
    except RecursionError:
        raise BadInput(f"{name}: is nested too deeply; does an alias contain itself?") from None
    return Tree(data, builder.origins, builder.mistakes)


def _composed(text: str, name: str) -> Node | None:
    try:
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise BadInput(f"{where}: not valid YAML: {_problem(error)}") from None
    except ReaderError as error:
        before = text[: int(error.position or 0)].splitlines() or [""]
        where = f"{name}:{len(before)}:{len(before[-1]) + 1}"
        raise BadInput(f"{where}: not valid YAML: contains a control character") from None
    except (YAMLError, ValueError, IndexError, AttributeError, TypeError):
        # ruamel raises internal errors for some broken directives and escapes.
        raise BadInput(f"{name}: not valid YAML") from None
    return node


def _problem(error: MarkedYAMLError) -> str:
    problem = str(error.problem or error.context).removeprefix("but ")
    remedy = next((remedy for words, remedy in _REMEDIES.items() if words in problem), None)
    # Quoted text is from the file and may be a secret, unless it is a token of YAML or a single character.
    shown = re.sub(
        r"'([^']*)'", lambda quoted: quoted[0] if len(quoted[1]) < 3 or quoted[1][0] == "<" else "'…'", problem
    )
    return f"{shown}; {remedy}" if remedy else shown


class _Builder:
    """Converts YAML nodes to plain values."""

    def __init__(self, name: str) -> None:
        self.origins: dict[Location, Origin] = {}
        self.mistakes: list[tuple[Origin, str]] = []
        self._name = name
        self._count = 0

    def value(self, node: Node, path: Location, mark: Any = None) -> Any:
        self._count += 1
        origin = self._origin(mark or node.start_mark, path)
        if self._count > _MOST_VALUES:
            raise BadInput(f"{self._name}: the file has more than {_MOST_VALUES} values after its aliases are replaced")
        if len(path) > _DEEPEST:
            raise BadInput(f"{origin}: is nested too deeply; does an alias contain itself?")
        self.origins[path] = origin
        match node:
            case MappingNode() if node.tag == f"{_TAG}map":
                return self._mapping(node, path)
            case SequenceNode() if node.tag == f"{_TAG}seq":
                return [self.value(item, (*path, str(index))) for index, item in enumerate(node.value)]
            case ScalarNode():
                return self._scalar(node, origin)
            case _:
                self._mistake(origin, _NO_TAGS)
                return None

    def _origin(self, mark: Any, path: Location) -> Origin:
        return Origin(self._name, mark.line + 1, mark.column + 1, path)

    def _mistake(self, origin: Origin, sentence: str) -> None:
        self.mistakes.append((origin, sentence))

    def _mapping(self, node: MappingNode, path: Location) -> dict[str, Any]:
        # Merged mappings (<<) come first, so that the mapping's own keys override them.
        values: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                values = self._merged(key, value, path) | values
        own: dict[str, int] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                continue
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode):
                self._mistake(self._origin(key.start_mark, path), "a key must be a text")
            elif (name := self._text(key, self._origin(key.start_mark, path))) in own:
                origin = self._origin(key.start_mark, (*path, name))
                self._mistake(origin, f"appears twice, first in line {own[name]}")
            else:
                own[name] = line
                values[name] = self.value(value, (*path, name), key.start_mark)
        return values

    def _merged(self, key: Node, value: Node, path: Location) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for each in value.value if isinstance(value, SequenceNode) else [value]:
            if isinstance(each, MappingNode) and len(path) < _DEEPEST:
                self._count += 1
                values = self._mapping(each, path) | values
            else:
                self._mistake(self._origin(key.start_mark, path), "<< needs a mapping, like *name")
        return values

    def _scalar(self, node: ScalarNode, origin: Origin) -> Any:
        text = self._text(node, origin)
        try:
            match str(node.tag).removeprefix(_TAG):
                case "null":
                    return None
                case "bool":
                    return text.lower() in {"true", "yes", "on", "y"}
                case "int":
                    return _integer(text)
                case "float":
                    return self._float(text, origin)
                # A date like 2026-01-31 is meant as a text.
                case "str" | "timestamp" | "value" | "merge":
                    return text
                case _:
                    self._mistake(origin, _NO_TAGS)
                    return None
        except ValueError:
            return text

    def _text(self, node: ScalarNode, origin: Origin) -> str:
        """Return the text, with pairs of escapes for one character (\\ud83d\\ude00, as in JSON) joined."""
        text = str(node.value)
        try:
            return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._mistake(origin, "contains half of a surrogate pair; write the character itself")
            return text.encode(errors="replace").decode()

    def _float(self, text: str, origin: Origin) -> float | None:
        number = float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
        if not math.isfinite(number):
            self._mistake(origin, "is not a finite number")
            return None
        return number


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    bare = digits.lstrip("+-")
    base = {"0x": 16, "0o": 8, "0b": 2}.get(bare[:2], 10)
    return int(digits, base)


def merged(below: Tree, above: Tree) -> Tree:
    """Return both trees merged: mappings key by key; any other value of ``above`` replaces the value in ``below``."""
    origins = dict(below.origins)
    data = _merge(below, above, (), origins)
    return Tree(data, origins, below.mistakes + above.mistakes)


def _merge(below: Tree, above: Tree, path: Location, origins: dict[Location, Origin]) -> Any:
    old, new = below.at(path), above.at(path)
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: _merge(below, above, (*path, key), origins) for key in new}
    for gone in [each for each in origins if each[: len(path)] == path]:
        del origins[gone]
    origins.update((each, origin) for each, origin in above.origins.items() if each[: len(path)] == path)
    return new


def grafted(tree: Tree, path: Location) -> Tree:
    """Return the tree moved below a path."""
    data = tree.data
    for part in reversed(path):
        data = {part: data}
    return Tree(data, {path + each: origin for each, origin in tree.origins.items()}, tree.mistakes)


def texts(tree: Tree) -> Iterator[tuple[Location, str]]:
    """Yield every text in the tree, with its path."""

    def walk(node: Any, path: Location) -> Iterator[tuple[Location, str]]:
        if isinstance(node, dict):
            for key, value in node.items():
                yield from walk(value, (*path, key))
        elif isinstance(node, list):
            for index, value in enumerate(node):
                yield from walk(value, (*path, str(index)))
        elif isinstance(node, str):
            yield path, node

    return walk(tree.data, ())
