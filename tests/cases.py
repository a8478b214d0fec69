"""Golden cases: what goes in and what must come out, as files."""

from __future__ import annotations

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
    """Whether the case expects what was found; with PADDOCK_GOLDEN=write it is made to, for people to review."""
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        yaml = YAML()
        yaml.width = 120
        tree = yaml.load(path.read_text())
        tree[key] = found
        with path.open("w") as file:
            yaml.dump(tree, file)
        return True
    return bool(case[key] == found)
