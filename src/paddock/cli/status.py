"""``paddock status``: show a table of agents."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, Only, Sets


@verb("paddock status --json")
def status(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    only: Only = None,
    updates: Annotated[
        bool,
        typer.Option("--updates", help="Also show a newer version in the package index, which is asked once a day."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show machine, version, state, health, backups and pending changes of each agent."""
    from paddock.cli.session import looking
    from paddock.run.status import statuses, table

    with looking(file, only, sets) as agents:
        rows = statuses(agents, updates=updates)
    print(json.dumps([row.as_data() for row in rows], indent=2) if as_json else table(rows))
