"""Write YAML for programs that read an older YAML than Paddock, and merge trees of settings."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML

_HEAD: Final = "%YAML 1.1\n---\n"
_texts: Final[dict[str, str]] = {}  # by tree: many agents of a file have the same settings, and writing them takes time


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both trees merged; values of ``over`` win."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def dump(tree: Mapping[str, Any]) -> str:
    """Return the tree as YAML text in which the agents' programs read the same values.

    They read YAML 1.1, in which a plain `off`, `yes` or `1:30` is not a text. Paddock's own file is YAML 1.2.
    """
    same = repr(tree)  # of plain values, which it tells apart
    if same not in _texts:
        _texts[same] = _dumped(tree)
    return _texts[same]


def _dumped(tree: Mapping[str, Any]) -> str:
    text = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)  # quotes those texts
    yaml.default_flow_style = False
    yaml.dump(dict(tree), text)
    return text.getvalue().removeprefix(_HEAD)
