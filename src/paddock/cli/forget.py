"""``paddock forget``: the only verb that deletes state."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Sets


@verb("paddock forget hermes")
def forget(
    agent: Agent,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Confirm with the agent's name instead of a prompt.")
    ] = None,
) -> None:
    """Delete an agent's state for good. Asks for the agent's name. Refused while the agent is up."""
    from paddock.base.errors import BadInput
    from paddock.base.text import one_line
    from paddock.cli.session import changing
    from paddock.core import converge

    with changing("forget", file, [agent], sets=sets) as agents:
        seen, plan = converge.plan_forget(agents[0])
        for step in plan.steps:
            print(one_line(f"  - {step.title}"), file=sys.stderr)
        if plan.steps and (name or typer.prompt("This cannot be undone. Type the agent's name", err=True)) != agent:
            raise BadInput("that is not the agent's name; nothing was deleted")
        print(converge.forget(agents[0], plan, seen))
