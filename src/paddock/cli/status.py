"""``paddock status`` and ``timings``: show how agents are, and how long runs took."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from paddock.base.errors import Exit
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
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if an agent does not run or is not healthy.")
    ] = False,
) -> None:
    """Show machine, version, state, health, backups and pending changes of each agent.

    Agents of the project that are not in the file, and what interrupted builds have left, follow at the end.
    """
    from paddock.cli.session import looking

    with looking(file, only, sets, reaching=True) as agents:
        from paddock.verbs.doctor import left_over
        from paddock.verbs.schedule import last_failure
        from paddock.verbs.status import Status, statuses, table

        failure = last_failure(agents[0].project, file[0])
        scheduled = {agent.name for agent in agents if agent.spec.backup is not None}
        rows = [
            replace(row, schedule=failure if row.agent in scheduled else None)
            for row in statuses(agents, updates=updates)
        ]
        left = left_over(agents) if not only else []
    well = all(row.is_well for row in rows)
    rows += [Status.of_remnant(each) for each in left]
    if as_json:
        print(json.dumps([row.as_data() for row in rows], indent=2))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join([table(rows, width), *(["", *(each.sentence for each in left)] if left else [])]))
    if exit_code and not well:
        raise typer.Exit(Exit.FAILED)


@verb("paddock timings --last 3", "paddock timings -f paddock.yaml")
def timings(
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", metavar="FILE", help="Only runs of this file. May be repeated.")
    ] = None,
    last: Annotated[int, typer.Option("--last", min=1, help="Number of runs to show.")] = 5,
    svg: Annotated[bool, typer.Option("--svg", help="Print a timeline as SVG instead of a table.")] = False,
    as_json: Json = False,
) -> None:
    """Show how many seconds each step of the last runs took."""
    from paddock.show import timings as timeline
    from paddock.show.journal import past_runs
    from paddock.show.timings import as_data, table

    runs = past_runs(last, file or ())
    if as_json:
        print(json.dumps(as_data(runs), indent=2))
    else:
        print(timeline.svg(runs) if svg else table(runs))
