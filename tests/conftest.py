"""What all tests share: golden cases, and a home of their own for everything Paddock writes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from paddock import secret

DATA = Path(__file__).parent / "data"
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Journals and deployed agents go below the test's folder; only the cache of downloads is shared."""
    if request.node.get_closest_marker("live"):
        return  # live tests keep one home for a whole module
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret, "_known", set())


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
