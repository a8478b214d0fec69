"""``paddock timings``: show how long steps took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import Json


@verb("paddock timings --last 3", "paddock timings -f paddock.yaml")
def timings(
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", metavar="FILE", help="Only runs of this file. May be repeated."),
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
