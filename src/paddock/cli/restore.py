"""``paddock restore``: put a backup in the place of an agent's state."""

from __future__ import annotations

from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, DryRun, File, Sets


@verb("paddock restore hermes", "paddock restore hermes 2026-11-16T02-02-12Z", "paddock restore hermes --undo")
def restore(
    agent: Agent,
    which: Annotated[str | None, typer.Argument(help="Name of the backup; without it the newest.")] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Go back to the state from before a restore that did not end.")
    ] = False,
) -> None:
    """Put a backup in the place of an agent's state. What was there is kept until the restored agent works."""
    from paddock.cli.session import changing
    from paddock.plan.show import as_text
    from paddock.run import restore as work

    with changing("restore", file, [agent], sets=sets) as agents:
        if undo:
            question = f"Delete what {agent} has learned since the restore, and go back to its state from before?"
            _ask(question, yes=yes)
            print(work.undo(agents[0]))
            return
        backup = work.choose(agents[0], which)
        plan = work.plan(agents[0], backup)
        if dry_run:
            print(as_text(plan, {}))
            return
        _ask(f"Replace the state of {agent} by backup {backup.name}?", yes=yes)
        print(work.restore(agents[0], backup))


def _ask(question: str, *, yes: bool) -> None:
    from paddock.errors import BadInput

    if not yes and not typer.confirm(question, err=True):
        raise BadInput("nothing was changed")
