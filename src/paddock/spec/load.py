"""Reading a paddock.yaml: every mistake at once, each with its line, its path and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from paddock.errors import BadInput
from paddock.spec.models import Kind, Spec

Location = Sequence[str]


@dataclass(frozen=True)
class Loaded:
    """A valid file and the folder its relative paths start from."""

    spec: Spec
    path: Path

    @property
    def folder(self) -> Path:
        return self.path.parent


def load(path: Path) -> Loaded:
    """Return the file's content, or raise one error that lists all its mistakes."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise BadInput(
            f"there is no {path}", hint="write one (README, a minimal file), or name it with --file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}") from None
    return Loaded(parse(text, str(path)), path.absolute())


def parse(text: str, name: str) -> Spec:
    """Return the spec a YAML text holds; ``name`` stands in the messages."""
    try:
        tree = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        problem = str(error.problem or error.context).partition(" with value")[0]  # it may be a secret
        raise BadInput(f"{where}: not valid YAML: {problem}") from None
    except (YAMLError, ValueError) as error:
        raise BadInput(f"{name}: not valid YAML: {error}") from None
    if not isinstance(tree, CommentedMap):
        raise BadInput(f"{name}:1:1: the file must be a mapping with places: and agents:")
    try:
        spec = Spec.model_validate(_plain(tree))
        mistakes = list(spec.mistakes())
    except ValidationError as error:
        mistakes = [_mistake(detail) for detail in error.errors(include_url=False, include_input=False)]
    if mistakes:
        placed = sorted((_position(tree, location), location, what) for location, what in mistakes)
        raise BadInput("\n".join(_sentence(name, *mistake) for mistake in placed))
    return spec


def _plain(node: Any) -> Any:
    """The tree as plain Python values, which is what strict validation expects."""
    if isinstance(node, CommentedMap):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        return [_plain(value) for value in node]
    if isinstance(node, bool) or node is None:
        return node
    for kind in (int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return str(node)


def _mistake(detail: ErrorDetails) -> tuple[tuple[str, ...], str]:
    location = tuple(str(part) for part in detail["loc"] if part != "[key]")
    if location[:1] == ("agents",) and len(location) > 2 and location[2] in list(Kind):
        location = location[:2] + location[3:]  # the kind that chose the model is not part of the path
    return location, _what(detail, location)


def _sentence(name: str, position: tuple[int, int], location: Location, what: str) -> str:
    line, column = position
    return f"{name}:{line}:{column}: {'.'.join(location) or 'file'}: {what}"


def _what(detail: ErrorDetails, location: Location) -> str:
    match detail["type"]:
        case "extra_forbidden":
            key = location[-1]
            near = difflib.get_close_matches(key, _known_keys(location[:-1]), n=1)
            return f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        case "missing":
            return "is missing"
        case "value_error":
            return str(detail["ctx"]["error"])
        case "string_pattern_mismatch":
            return f"does not have the form {detail['ctx']['pattern']}"
        case _:
            message = detail["msg"]
            return message[:1].lower() + message[1:]


def _known_keys(location: Location) -> list[str]:
    """The keys the model at this place of the file knows."""
    model: Any = Spec
    for part in location:
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return []
        field = model.model_fields.get(part)
        model = _model_in(field.annotation) if field else model
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _model_in(annotation: Any) -> Any:
    """The model inside ``X``, ``X | None`` or ``dict[str, X]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None


def _position(tree: CommentedMap, location: Location) -> tuple[int, int]:
    """Line and column, from 1, of the deepest part of the path that the file has."""
    node: Any = tree
    line, column = 0, 0
    for part in location:
        if isinstance(node, CommentedMap) and part in node:
            line, column = node.lc.key(part)
        elif isinstance(node, CommentedSeq) and part.isdigit() and int(part) < len(node):
            line, column = node.lc.item(int(part))
        else:
            break
        node = node[int(part)] if isinstance(node, CommentedSeq) else node[part]
    return line + 1, column + 1
