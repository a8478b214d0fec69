"""The JSON Schema of the file, for editors."""

from __future__ import annotations

from typing import Any

from paddock.spec.kinds import AgentKind, Kinds


def json_schema(kinds: Kinds[AgentKind]) -> dict[str, Any]:
    """Return the schema with a description for every key."""
    schema: dict[str, Any] = kinds.file.model_json_schema()
    definitions = schema["$defs"]
    of_any_kind: dict[str, Any] = {}
    for model in kinds.models.values():
        of_any_kind |= definitions[model.__name__]["properties"]
    defaults = schema["properties"]["defaults"]
    defaults.update(properties=of_any_kind, additionalProperties=False)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "paddock.yaml"}
