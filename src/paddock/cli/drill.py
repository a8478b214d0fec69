"""``paddock drill``: prove that a backup can be restored."""

from __future__ import annotations

from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Sets


@verb("paddock drill hermes", "paddock drill hermes 2026-11-16T02-02-12Z --real-model")
def drill(
    agent: Agent,
    which: Annotated[str | None, typer.Argument(help="Name of the backup; without it the newest.")] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the steps.")] = False,
    real_model: Annotated[
        bool, typer.Option("--real-model", help="Let the copy use the agent's own model instead of a stand-in.")
    ] = False,
) -> None:
    """Restore a backup to a throwaway copy of the agent that cannot act, have it recall a fact, and remove it."""
    from paddock.cli.session import changing
    from paddock.plan.step import as_text
    from paddock.verbs import drill as work

    with changing("drill", file, [agent], sets=sets) as agents:
        trial = work.Trial.of(agents[0], which, real_model=real_model)
        if dry_run:
            print("\n".join([as_text(work.plan(trial), {}), *(f"  + {step}" for step in work.later_steps(trial))]))
            return
        print(work.drill(trial))
