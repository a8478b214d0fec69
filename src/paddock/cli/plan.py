"""``paddock plan``: show what `up` would change."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Annotated

import typer

from paddock.base.errors import Exit
from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, New, Only, Sets


@verb("paddock plan --exit-code")
def plan(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    only: Only = None,
    new: New = False,
    as_json: Json = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 if `up` would change something.")] = False,
) -> None:
    """Show the steps that `up` would take, and what it would leave alone. Changes nothing."""
    from paddock.cli.session import looking

    with looking(file, only, sets, new=new, reaching=True) as agents:
        from paddock.core import converge
        from paddock.core.parallel import side_by_side
        from paddock.plan.step import Plan, as_data, as_text
        from paddock.show.journal import past_runs, usual_seconds
        from paddock.verbs.doctor import left_over

        plans = side_by_side(agents, partial(converge.plan, shared=True))
        left = left_over(agents) if not only else []
    usual = usual_seconds(past_runs(20))
    if as_json:
        untouched = [Plan(each.remnant.name, notes=[each.sentence]) for each in left]
        print(json.dumps([as_data(each, usual) for each in (*plans, *untouched)], indent=2))
    else:
        print("\n".join(as_text(each, usual) for each in plans))
        for each in left:
            print(each.sentence, file=sys.stderr)
    if any(each.refusals for each in plans):
        raise typer.Exit(Exit.NEEDS_PERSON)
    if exit_code and any(not each.empty for each in plans):
        raise typer.Exit(Exit.CHANGES_PENDING)
