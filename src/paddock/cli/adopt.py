"""``paddock adopt``: what is there already, into the file's care."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Looked, Sets


@verb("paddock adopt hermes 105", "paddock adopt hermes 105 --state mp0 --yes")
def adopt(
    agent: Agent,
    vmid: Annotated[
        int | None, typer.Argument(help="The container that is to be its machine; without it, only the state.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="VOLUME", help="The volume that is its state: mp0 of that container, or storage:name."
        ),
    ] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it, and write what is there into the file; without, only tell.")
    ] = False,
    looked: Looked = False,
) -> None:
    """Take a container, or a volume with what an agent has learned, into the file's care."""
    from paddock.cli.session import changing, looking
    from paddock.plan.show import as_text
    from paddock.run import adopt as work
    from paddock.spec import rewrite

    target = work.target(vmid, state)
    with looking(file, [agent], sets) as agents:
        said = work.describe(agents[0], target).said
    as_it_is = [*(sets or ()), *rewrite.as_assignments(agent, said)]
    with looking(file, [agent], as_it_is) as agents:
        planned = work.plan(agents[0], target, looked=looked)
    if said and not planned.refusals:
        print(rewrite.as_text(agent, said), end="")
    print(as_text(planned, {}), file=sys.stderr)
    if not yes and not planned.refusals:
        print("nothing was changed; --yes does this and writes the part above into the file", file=sys.stderr)
        return
    with changing("adopt", file, [agent], sets=as_it_is) as agents:
        if said and not planned.refusals:
            # Before anything is marked: a file that says less would make the machine another one with its next `up`.
            print(f"written: {rewrite.write_into(file, agent, said)}", file=sys.stderr)
        print(work.adopt(agents[0], target, looked=looked))
