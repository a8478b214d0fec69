"""The table of models, their keys and their URLs: tests/data/model_keys.yaml."""

from __future__ import annotations

from typing import Any, Final

from ruamel.yaml import YAML

from cases import DATA
from paddock.kinds import agent_from
from paddock.kinds.hermes.spec import HermesSpec

ROWS: Final[list[dict[str, Any]]] = YAML(typ="safe").load((DATA / "model_keys.yaml").read_text())


def agent_of(row: dict[str, Any]) -> HermesSpec:
    """Return the agent of a row."""
    found = agent_from(
        {
            **{"kind": "hermes", "place": "home", "version": "0.19.0", "settings": row["settings"]},
            "secrets": {name: {"env": name} for name in row.get("secrets", [])},
            "environment_files": [{"file": "variables.env"}] if "in_a_file" in row else [],
        }
    )
    assert isinstance(found, HermesSpec)
    return found
