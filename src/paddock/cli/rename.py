"""``paddock rename``: give an agent another name, or the project of the file."""

from __future__ import annotations

from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Sets, agents_completion


@verb(
    "paddock rename hermes muse",
    "paddock rename hermes muse --yes",
    "paddock rename --from lab",
    "paddock rename --from lab hermes --yes",
)
def rename(
    agents: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=agents_completion,
            help="The name of an agent so far, and its new name. With --from: agents to move; default: all that the"
            " project has.",
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option("--from", metavar="PROJECT", help="Project that the agents have so far.")
    ] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    yes: Annotated[bool, typer.Option("--yes", help="Carry the plan out. Without it, only show the plan.")] = False,
) -> None:
    """Give an agent another name, or move agents from another project to the project of the file.

    Machines and state stay the same. A container is recreated.

    A new name is written into the file, with the path of the state.
    """
    from paddock.base.errors import BadInput
    from paddock.cli import moving

    if project is not None:
        moving.move("rename", project, agents, file, sets, yes=yes)
        return
    if len(agents or ()) != 2 or agents is None:
        raise BadInput("name the agent and its new name, or the project that agents have so far with --from")
    moving.rename(agents[0], agents[1], file, sets, yes=yes)
