"""``paddock outputs``: print machine numbers, host names and addresses for other tools."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, Only, Sets


class Format(StrEnum):
    """What other programs read."""

    TEXT = "text"
    JSON = "json"
    ENV = "env"
    TF = "tf"


@verb("paddock outputs --format tf > paddock.tf", "paddock outputs --format env > hermes.env")
def outputs(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    only: Only = None,
    form: Annotated[
        Format, typer.Option("--format", help="env: HERMES_ADDRESS=…; tf: a local value for Terraform.")
    ] = Format.TEXT,
    as_json: Json = False,
    env: Annotated[bool, typer.Option("--env", hidden=True, help="The same as --format env.")] = False,
) -> None:
    """Print the number, host name and address of each agent's machine."""
    from paddock.cli.session import looking
    from paddock.verbs.outputs import as_env, as_terraform, as_text
    from paddock.verbs.outputs import outputs as read

    with looking(file, only, sets) as agents:
        found = {agent.name: read(agent) for agent in agents}
    match Format.JSON if as_json else Format.ENV if env else form:
        case Format.JSON:
            lines = iter([json.dumps(found, indent=2)])
        case Format.ENV:
            lines = as_env(found)
        case Format.TF:
            lines = as_terraform(found)
        case Format.TEXT:
            lines = as_text(found)
    print("\n".join(lines))
