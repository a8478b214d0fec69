"""Files of agents: YAML 1.1 for their programs, and files that Paddock ships."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML

_HEAD: Final = "%YAML 1.1\n---\n"
# The text of each section: the agents of a file have many in common, and writing them takes time.
_texts: Final[dict[str, str]] = {}


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both trees merged; values of ``over`` win."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def dump(tree: Mapping[str, Any]) -> str:
    """Return the tree as YAML text that has the same values for the agents' programs.

    They read YAML 1.1, in which a plain `off`, `yes` or `1:30` is not a text. Paddock's own file is YAML 1.2.
    """
    # The keys are sorted, so the text of the tree is that of its sections, one after the other.
    sections = [{key: tree[key]} for key in sorted(tree)]
    return "".join(map(_text, sections or [{}]))


def _text(section: dict[str, Any]) -> str:
    same = repr(section)  # the values are plain, so this tells them apart
    if same not in _texts:
        _texts[same] = _written(section)
    return _texts[same]


def _written(tree: dict[str, Any]) -> str:
    text = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)  # quotes those texts
    yaml.default_flow_style = False
    yaml.dump(tree, text)
    return text.getvalue().removeprefix(_HEAD)


@cache
def text(package: str, path: str) -> str:
    """Return the text of a file of a package. It is read once: many agents of a file need the same one."""
    return (resources.files(package) / path).read_text(encoding="utf-8")
