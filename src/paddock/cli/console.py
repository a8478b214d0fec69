"""``paddock console``: print the commands that only root on the node can run."""

from __future__ import annotations

import json
import sys

import typer

from paddock.base.errors import Exit
from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, Only, Sets


@verb("paddock console | ssh root@node sh")
def console(file: File = DEFAULT_FILE, sets: Sets = None, only: Only = None, as_json: Json = False) -> None:
    """Print the commands that only root can run, to paste into the node's shell."""
    from paddock.cli.session import looking
    from paddock.verbs.outputs import script

    with looking(file, only, sets) as agents:
        found = {agent.name: script(agent) for agent in agents}
    if as_json:
        told = {name: [line for line in each.lines if not line.startswith("#")] for name, each in found.items()}
        print(json.dumps([{"agent": name, "commands": lines} for name, lines in told.items()], indent=2))
    else:
        print("\n".join(line for each in found.values() for line in each.lines))
    if refused := [line for each in found.values() for line in each.refused]:
        print("\n".join(refused), file=sys.stderr)  # a shell at the end of a pipe does not show comments
        raise typer.Exit(Exit.FAILED)
