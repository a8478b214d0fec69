"""``paddock plan``, ``up``, ``restart``, ``cycle`` and ``down``: create, change and remove machines and agents."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Annotated

import typer

from paddock.base.errors import Exit
from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, DryRun, File, Jobs, Json, Looked, New, NoWait, Only, Sets


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


@verb("paddock up --only hermes --jobs 2")
def up(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    only: Only = None,
    jobs: Jobs = 4,
    no_wait: NoWait = False,
    new: New = False,
    recreate: Annotated[
        bool,
        typer.Option(
            "--recreate",
            help="Recreate Docker and Podman containers even if nothing changed. Software installed in them is lost.",
        ),
    ] = False,
    pull: Annotated[
        bool,
        typer.Option(
            "--pull",
            help="Pull images that the file names by a tag again. If an image is another one, recreate its containers.",
        ),
    ] = False,
) -> None:
    """Create or change machines and agents as the file says, and check that each agent answers."""
    from paddock.cli.session import changing

    with changing("up", file, only, jobs, sets, patient=not no_wait, new=new, reaching=True) as agents:
        from paddock.core import converge
        from paddock.core.parallel import each
        from paddock.core.resolve import Asked

        asked = Asked(recreate=recreate, pull=pull)
        print("\n".join(each(agents, jobs, partial(converge.up, asked=asked, shared=len(agents) > 1))))


@verb("paddock restart hermes")
def restart(agent: Agent, file: File = DEFAULT_FILE, sets: Sets = None, dry_run: DryRun = False) -> None:
    """Stop an agent, start it again and verify it. Its machine keeps running."""
    from paddock.cli.session import changing, looking
    from paddock.core import converge
    from paddock.core.resolve import Asked
    from paddock.plan.step import as_text

    if dry_run:
        with looking(file, [agent], sets) as agents:
            print(as_text(converge.plan(agents[0], Asked(restart=True)), {}))
        return
    with changing("restart", file, [agent], sets=sets) as agents:
        print(converge.up(agents[0], Asked(restart=True)))


@verb("paddock cycle --only hermes")
def cycle(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    only: Only = None,
    jobs: Jobs = 4,
    no_wait: NoWait = False,
    looked: Looked = False,
) -> None:
    """Recreate the machines of agents and keep their state."""
    from paddock.cli.session import changing
    from paddock.core import converge
    from paddock.core.parallel import each

    with changing("cycle", file, only, jobs, sets, patient=not no_wait) as agents:
        print("\n".join(each(agents, jobs, partial(converge.cycle, looked=looked))))


@verb("paddock down --only hermes")
def down(
    file: File = DEFAULT_FILE, sets: Sets = None, only: Only = None, jobs: Jobs = 4, looked: Looked = False
) -> None:
    """Stop agents and remove their machines, except hosts. Their state is kept."""
    from paddock.cli.session import changing
    from paddock.core import converge
    from paddock.core.parallel import each

    with changing("down", file, only, jobs, sets) as agents:
        print("\n".join(each(agents, jobs, partial(converge.down, looked=looked))))
