"""``paddock up``: make it so."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Jobs, NoWait, Only, Sets


@verb("paddock up --only hermes --jobs 2")
def up(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    only: Only = None,
    jobs: Jobs = 4,
    no_wait: NoWait = False,
    recreate: Annotated[
        bool, typer.Option("--recreate", help="Make containers (docker, podman) anew; what was installed in them goes.")
    ] = False,
) -> None:
    """Bring agents up: create what is missing, change what differs, and see that each answers."""
    from paddock.cli.session import changing
    from paddock.run import verbs
    from paddock.run.parallel import each

    with changing("up", file, only, jobs, sets, patient=not no_wait) as agents:
        print("\n".join(each(agents, jobs, partial(verbs.up, recreate=recreate))))
