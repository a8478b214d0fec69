"""``paddock approve``: approve what a file starts on this computer."""

from __future__ import annotations

from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Sets


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
