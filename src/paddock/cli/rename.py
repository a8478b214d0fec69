"""``paddock rename``: move agents from another project to the project of the file."""

from __future__ import annotations

from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Sets, agents_completion


@verb("paddock rename --from lab", "paddock rename --from lab hermes --yes")
def rename(
    project: Annotated[str, typer.Option("--from", metavar="PROJECT", help="Project that the agents have so far.")],
    agents: Annotated[
        list[str] | None,
        typer.Argument(autocompletion=agents_completion, help="Agents to move. Default: all that the project has."),
    ] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    yes: Annotated[bool, typer.Option("--yes", help="Move them. Without it, only show the plan.")] = False,
) -> None:
    """Move agents from another project to the project of the file. Machines and state stay the same."""
    from paddock.cli.moving import move

    move("rename", project, agents, file, sets, yes=yes)
