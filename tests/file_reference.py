"""The page docs/file.md, written from the models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from paddock.file.kinds import AgentKind, Kinds
from paddock.file.models.agent import AgentSpec
from paddock.file.models.place import PlaceSpec
from paddock.file.models.quantities import Duration, Size
from paddock.file.models.whole import NotifySpec, Spec
from paddock.file.secrets.sources import Source
from paddock.file.sentences import keys

_INTRODUCTION: Final = """\
# The file

<!-- Written from the models by `PADDOCK_GOLDEN=write ./test tests/file/test_schema.py`; do not edit. -->

One file, `paddock.yaml`, describes places and agents. `paddock init` writes a first one, `paddock check` validates it,
and `paddock schema` prints its JSON Schema. Unknown keys are errors.

- **Sizes** have a unit: `512M`, `10G`, `10GiB`; units are powers of 1024. **Durations** have one too: `500ms`, `5s`,
  `2m`, `1h`.
- **Paths** on this machine are relative to the folder of the first file; `~` is your home.
- **Several files**: `-f paddock.yaml -f at-home.yaml` merges them. Later files override earlier ones; lists are
  replaced as a whole.
- **One value**: `--set agents.NAME.machine.memory=8G`. The value is YAML. A part of the path with dots needs
  quotes: `--set 'agents.NAME.documents."SOUL.md"=Be brief.'`
- **`defaults`** are merged into every agent in which the key has an effect; the agent's own values win.
- **`${NAME}` is not replaced** by Paddock. Values from outside the file have [sources](#sources). You may write
  `${NAME}` in texts that another program reads and in which that program replaces it (`settings`, `mcp_servers`).
- **Secrets** are not written in the file; the file names their [sources](#sources). A name or value that looks like a
  secret is an error.
"""

_SCALARS: Final = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Size: "size",
    Duration: "duration",
    Path: "path",
    Any: "anything",
}


def reference(kinds: Kinds[AgentKind]) -> str:
    """Return the whole page."""
    sections = [_INTRODUCTION, *_section("paddock.yaml", Spec), *_parts("places.NAME", PlaceSpec.complete())]
    every_kind = {"kind": _words(Literal[tuple(kinds)])}
    sections += [
        *_section("agents.NAME", AgentSpec, takes=every_kind),
        *_parts("agents.NAME", AgentSpec, heading=False),
    ]
    for kind, model in kinds.models.items():
        own = [name for name in keys(model) if name not in AgentSpec.model_fields]
        sections += [
            *_section(f"agents.NAME, kind {kind}", model, own),
            *_parts("agents.NAME", model, own, heading=False),
        ]
    sections += _parts("notify", NotifySpec)
    sections += _section("Sources", Source)
    return "\n".join(sections)


def _parts(path: str, model: type[BaseModel], only: list[str] | None = None, *, heading: bool = True) -> Iterator[str]:
    """Yield the section of a model, and of every model below it."""
    if heading:
        yield from _section(path, model)
    for name, field in keys(model).items():
        if only is not None and name not in only:
            continue
        inner, suffix = _inner(field.annotation)
        if inner is not None and inner is not Source and _alike(model, name) == name:
            yield from _parts(f"{path}.{name}{suffix}", inner)


def _alike(model: type[BaseModel], name: str) -> str:
    """Return the first key of the model with the same part below it. One section serves all of them."""
    same = _inner(keys(model)[name].annotation)
    return next(each for each, field in keys(model).items() if _inner(field.annotation) == same)


def _inner(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """Return the model in an annotation, and the suffix of the path to it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    suffix = {dict: ".NAME", list: "[]"}.get(get_origin(annotation), "")
    for each in reversed(get_args(annotation)):
        found, rest = _inner(each)
        if found is not None:
            return found, suffix + rest
    return None, ""


def _section(
    title: str, model: type[BaseModel], only: list[str] | None = None, takes: Mapping[str, str] | None = None
) -> Iterator[str]:
    path = "" if model is Spec else title.partition(",")[0]
    yield f"\n## {title}\n"
    yield f"{' '.join((model.__doc__ or '').split()).replace('``', '`')}\n"
    yield "| key | what it takes | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in keys(model).items():
        if only is None or name in only:
            description = str(field.description or "").replace("|", "\\|")
            words = (takes or {}).get(name) or _takes(f"{path}.{_alike(model, name)}".lstrip("."), field)
            yield f"| `{name}` | {words} | {_default(field)} | {description} |"


def _takes(path: str, field: FieldInfo) -> str:
    inner, suffix = _inner(field.annotation)
    words = _words(field.annotation, field.metadata)
    if inner is None or inner is Source:
        return words
    anchor = re.sub(r"[^a-z_-]", "", f"{path}{suffix}".lower())
    return re.sub(r"\bmapping$", f"[mapping](#{anchor})", words)


def _words(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    # A part with a shorthand also accepts a plain value.
    short = [each.json_schema_input_type for each in metadata if isinstance(each, BeforeValidator)]
    if any(get_origin(form) in (Union, UnionType) for form in short):
        return _words(short[0])
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if origin is Annotated:
        return _words(arguments[0], arguments[1:])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_words(each) for each in arguments if each is not NoneType))
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in arguments)
    if origin is list:
        return f"list of {_words(arguments[0])}"
    if origin is dict:
        return f"mapping of names to {_words(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{member.value}`" for member in annotation)
    if annotation is Source:
        return "[source](#sources)"
    return "mapping"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel) or value in (None, [], {}) or "without it" in str(field.description):
        return ""
    if isinstance(value, list):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{re.sub('^(True|False)$', lambda found: found[0].lower(), str(value))}`"
