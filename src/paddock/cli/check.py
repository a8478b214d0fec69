"""``paddock check`` and ``approve``: validate the file, and approve what it starts on this computer."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paddock.base.errors import Exit
from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, Sets


@verb("paddock check -f paddock.yaml -f at-home.yaml --set agents.hermes.machine.memory=8G")
def check(file: File = DEFAULT_FILE, sets: Sets = None, as_json: Json = False) -> None:
    """Validate the file. Does not contact any place."""
    from paddock.file import check as checking
    from paddock.kinds import KINDS

    if as_json:
        report = checking.as_data(file, sets or (), KINDS)
        print(json.dumps(report, indent=2))
        raise typer.Exit(Exit.DONE if report["ok"] else Exit.BAD_INPUT)
    print(checking.summary(checking.checked(file, sets or (), KINDS)))


@verb("paddock approve", "paddock approve -f paddock.yaml --yes")
def approve(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Approve the commands that the file starts on this computer: sources of secrets, `notify`, and a few others.

    Every verb that would run a command asks for those that are new to your account. Without a terminal it cannot ask.
    """
    from paddock.cli.session import approved, show
    from paddock.core import approval
    from paddock.kinds import load

    loaded = load(*file, sets=sets or ())
    new = approval.unapproved(loaded)
    if not new:
        print("nothing to approve")
        return
    if yes:
        show(loaded, new)
        approval.approve(loaded)
    else:
        approved(loaded, file)
    print("approved")
