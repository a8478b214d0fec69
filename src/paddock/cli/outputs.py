"""``paddock outputs``: print machine numbers, host names and addresses for other tools."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, Only, Sets


@verb("paddock outputs --env > hermes.env")
def outputs(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    only: Only = None,
    as_json: Json = False,
    env: Annotated[bool, typer.Option("--env", help="Print an env file: HERMES_ADDRESS=…")] = False,
) -> None:
    """Print the number, host name and address of each agent's machine."""
    from paddock.cli.session import looking
    from paddock.run.outputs import as_env, as_text
    from paddock.run.outputs import outputs as read

    with looking(file, only, sets) as agents:
        found = {agent.name: read(agent) for agent in agents}
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(as_env(found) if env else as_text(found)))
