"""The JSON Schema of the file, the examples of ``paddock init``, and the files beside every paddock.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final

from paddock.base.errors import BadInput
from paddock.file.kinds import AgentKind, Kinds


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


SCHEMA_FILE: Final = "paddock.schema.json"
_IGNORED: Final = ("# secrets of agents; encrypted *.age files may be committed", ".env", "*.env", "*.key", "auth.json")


def write_starter(folder: Path, shape: str, kinds: Kinds[AgentKind], project: str | None = None) -> Iterator[str]:
    """Write the files, and yield a line about each; raise an error if there is a paddock.yaml already.

    Without ``project`` the project is named after the folder.
    """
    target = folder / "paddock.yaml"
    if target.exists():
        raise BadInput(f"{target} exists already", hint="name another folder, or move the file away")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target.write_text(_example(shape, project or project_name(folder)), encoding="utf-8")
        yield f"{target}: describes what should run, and where; edit it, then run `paddock check`"
        (folder / SCHEMA_FILE).write_text(schema_text(kinds), encoding="utf-8")
        yield f"{folder / SCHEMA_FILE}: the schema for editors, which the first line of paddock.yaml names"
        ignore = folder / ".gitignore"
        if (text := ignoring_secrets(ignore)) is not None:
            ignore.write_text(text, encoding="utf-8")
            yield f"{ignore}: keeps secrets out of git"
    except OSError as error:
        raise BadInput(f"cannot write to {folder}: {error.strerror}") from None


def project_name(folder: Path) -> str:
    """Return a name for the project from the name of its folder. It is never random: two checkouts are one project."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.absolute().name.lower()).lstrip("-0123456789")
    return name[:31].rstrip("-") or "home"


def _example(shape: str, project: str) -> str:
    # An installed package contains the examples; in a checkout they are at the root of the project.
    installed = resources.files("paddock") / "examples" / f"{shape}.yaml"
    source = installed if installed.is_file() else Path(__file__).parents[3] / "examples" / f"{shape}.yaml"
    text = source.read_text(encoding="utf-8")
    text = text.replace("project: home ", f"project: {project} ", 1)
    return text.replace(f" -f {shape}.yaml", "")


def schema_text(kinds: Kinds[AgentKind]) -> str:
    """Return the content of the schema file."""
    return json.dumps(json_schema(kinds), indent=2) + "\n"


def ignoring_secrets(path: Path) -> str | None:
    """Return the content of a .gitignore with the lines for secrets added; None if it has all of them."""
    present = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    missing = [line for line in _IGNORED if line not in present]
    return "\n".join([*present, *missing]) + "\n" if missing else None
