"""The schema and the reference say what the models say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paddock.spec.reference import reference
from paddock.spec.schema import json_schema

ROOT = Path(__file__).parents[2]


def current(path: Path, text: str) -> bool:
    """Whether a written file is what it would be today; with PADDOCK_GOLDEN=write it is made so."""
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        path.write_text(text)
    return path.read_text() == text


def test_the_reference_is_current() -> None:
    assert current(ROOT / "docs" / "file.md", reference()), "PADDOCK_GOLDEN=write rewrites it"


def test_the_schema_beside_the_examples_is_current() -> None:
    path = ROOT / "examples" / "paddock.schema.json"
    assert current(path, json.dumps(json_schema(), indent=2) + "\n"), "PADDOCK_GOLDEN=write rewrites it"


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield from schema["properties"].items()
        for value in schema.values():
            yield from properties(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from properties(value)


def test_every_key_is_described() -> None:
    found = list(properties(json_schema()))
    assert len(found) > 150
    assert [name for name, schema in found if not schema.get("description")] == []


def test_every_part_is_closed_to_unknown_keys() -> None:
    for name, part in json_schema()["$defs"].items():
        if part.get("type") == "object":
            assert part["additionalProperties"] is False, name


def test_shorthands_are_in_the_schema() -> None:
    machine = json_schema()["$defs"]["MachineSpec"]["properties"]
    assert {"type": "string"} in machine["net"]["anyOf"]
    assert machine["memory"]["default"] == "2G"


def test_defaults_take_what_agents_take() -> None:
    defaults = json_schema()["properties"]["defaults"]
    assert {"machine", "settings", "command", "port"} <= defaults["properties"].keys()
    assert defaults["additionalProperties"] is False
