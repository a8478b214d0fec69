"""``paddock timings``: where did the time go?"""

from __future__ import annotations

from typing import Annotated

import typer

from paddock.cli import app


@app.command()
def timings(
    last: Annotated[int, typer.Option("--last", min=1, help="How many runs.")] = 5,
    svg: Annotated[bool, typer.Option("--svg", help="A timeline as a picture instead of a table.")] = False,
) -> None:
    """Show the phases of the last runs side by side, in seconds."""
    from paddock.run import timeline
    from paddock.run.journal import past_runs
    from paddock.run.timings import table

    runs = past_runs(last)
    print(timeline.svg(runs) if svg else table(runs))
