"""Golden cases: YAML files with the input of a test and the output it expects."""

from __future__ import annotations

import difflib
import io
import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

DATA = Path(__file__).parent / "data"


def golden(folder: str) -> list[Any]:
    """Return the golden cases of a folder as parameters, named by their files."""
    return [pytest.param(path, id=path.stem) for path in sorted((DATA / folder).glob("*.yaml"))]


def read_case(path: Path) -> dict[str, Any]:
    return dict(YAML(typ="safe").load(path.read_text()))


def agrees(path: Path, case: dict[str, Any], key: str, found: Any) -> bool:
    """Fail with a diff unless the case expects this value. PADDOCK_GOLDEN=write rewrites the case instead.

    Returns True, so that `assert agrees(...)` works and reads well.
    """
    __tracebackhide__ = True
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        yaml = YAML()
        yaml.width = 120
        tree = yaml.load(path.read_text())
        tree[key] = found
        with path.open("w") as file:
            yaml.dump(tree, file)
        return True
    if case[key] != found:
        pytest.fail(_difference(path, key, case[key], found), pytrace=False)
    return True


def _difference(path: Path, key: str, expected: Any, found: Any) -> str:
    name = f"{path.name} {key}"
    before, after = (_as_yaml({key: value}).splitlines() for value in (expected, found))
    lines = list(difflib.unified_diff(before, after, f"{name}, expected", f"{name}, found", lineterm=""))
    # Values that differ only in their type, as 1 and True or a tuple and a list do, can have one YAML text.
    return "\n".join(lines or [f"{name}: expected {expected!r}", f"found {found!r}"])


def _as_yaml(value: Any) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 120
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    text = io.StringIO()
    yaml.dump(value, text)
    return text.getvalue()
