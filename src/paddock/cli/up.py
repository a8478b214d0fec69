"""``paddock up``: create or change machines and agents as the file says."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Jobs, New, NoWait, Only, Sets


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
