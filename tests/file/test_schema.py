"""The JSON Schema and docs/file.md are generated from the models."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import DATA, read_case
from file.mistakes import data_of
from file_reference import reference
from paddock.file.schema import json_schema
from paddock.file.tree import read
from paddock.kinds import KINDS

ROOT = Path(__file__).parents[2]


def current(path: Path, text: str) -> bool:
    """Whether a generated file has this text; PADDOCK_GOLDEN=write writes it."""
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        path.write_text(text)
    return path.read_text() == text


def test_the_page_docs_file_md_is_current() -> None:
    assert current(ROOT / "docs" / "file.md", reference(KINDS)), "PADDOCK_GOLDEN=write rewrites it"


def test_the_schema_beside_the_examples_is_current() -> None:
    path = ROOT / "examples" / "paddock.schema.json"
    assert current(path, json.dumps(json_schema(KINDS), indent=2) + "\n"), "PADDOCK_GOLDEN=write rewrites it"


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield from schema["properties"].items()
        for value in schema.values():
            yield from properties(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from properties(value)


def test_every_key_has_a_description() -> None:
    found = list(properties(json_schema(KINDS)))
    assert len(found) > 150
    assert [name for name, schema in found if not schema.get("description")] == []


def problems(schema: Any, value: Any, root: Any, path: str = "") -> list[str]:
    """Validate a value; this supports only the keywords in the schema and fails for others."""
    if "$ref" in schema:
        return problems(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root, path)
    if "oneOf" in schema:
        chosen = schema["discriminator"]["mapping"].get(value.get("kind"))
        return problems({"$ref": chosen}, value, root, path) if chosen else [f"{path}: no such kind"]
    if "anyOf" in schema:
        return min((problems(each, value, root, path) for each in schema["anyOf"]), key=len)
    unknown = schema.keys() - KNOWN
    assert not unknown, unknown
    kinds = schema.get("type", [])
    if kinds and not any(isinstance(value, TYPES[kind]) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return [f"{path}: not {kinds}"]
    found = []
    if isinstance(value, bool) and "integer" in kinds and "boolean" not in kinds:
        found.append(f"{path}: a boolean is not a number")
    if "const" in schema and value != schema["const"]:
        found.append(f"{path}: not {schema['const']}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: not one of {schema['enum']}")
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        found.append(f"{path}: not like {schema['pattern']}")
    if isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        found.append(f"{path}: out of range")
    if isinstance(value, dict):
        more = schema.get("additionalProperties", True)
        known = schema.get("properties", {})
        found += [f"{path}: {name} is missing" for name in schema.get("required", []) if name not in value]
        for name, each in value.items():
            below = f"{path}.{name}"
            matching = [inner for like, inner in schema.get("patternProperties", {}).items() if re.search(like, name)]
            if name in known or matching:
                found += problems(known.get(name) or matching[0], each, root, below)
            elif more is False:
                found.append(f"{below}: unknown")
            elif isinstance(more, dict):
                found += problems(more, each, root, below)
    if isinstance(value, list) and "items" in schema:
        found += [each for item in value for each in problems(schema["items"], item, root, f"{path}[]")]
    return found


TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
KNOWN = {
    *("$schema", "$defs", "title", "description", "default", "examples", "format", "deprecated"),
    *("type", "properties", "required", "additionalProperties", "propertyNames", "items", "minItems", "minLength"),
    *("enum", "const", "pattern", "minimum", "maximum", "exclusiveMinimum", "discriminator", "patternProperties"),
}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_valid_in_the_schema(path: Path) -> None:
    schema = json_schema(KINDS)
    for text in (path.read_text(), path.read_text().replace("#: ", "")):
        assert problems(schema, read(text, path.name).data, schema) == []


def test_mistakes_of_form_are_invalid_in_the_schema() -> None:
    """A schema cannot find all mistakes, but it finds those of form."""
    schema = json_schema(KINDS)
    for name in (
        "unknown-key",
        "unknown-top",
        "wrong-type",
        "missing-key",
        "unknown-kind",
        "bad-restart",
        "bad-size-word",
    ):
        case = read_case(DATA / "spec" / f"{name}.yaml")
        assert problems(schema, data_of(case), schema), name


def test_no_part_of_the_schema_allows_unknown_keys() -> None:
    for name, part in json_schema(KINDS)["$defs"].items():
        if part.get("type") == "object":
            assert part["additionalProperties"] is False, name


def test_shorthands_are_in_the_schema() -> None:
    machine = json_schema(KINDS)["$defs"]["MachineSpec"]["properties"]
    assert {"type": "string"} in machine["net"]["anyOf"]
    assert machine["memory"]["default"] == "2G"


def test_defaults_have_the_keys_of_all_kinds_of_agents() -> None:
    defaults = json_schema(KINDS)["properties"]["defaults"]
    assert {"machine", "settings", "command", "port"} <= defaults["properties"].keys()
    assert defaults["additionalProperties"] is False
