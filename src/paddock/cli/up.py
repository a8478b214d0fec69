"""``paddock up``: make it so."""

from __future__ import annotations

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Only, Sets


@verb("paddock up --only hermes")
def up(file: File = DEFAULT_FILE, sets: Sets = None, only: Only = None) -> None:
    """Bring agents up: create what is missing, change what differs, and see that each answers."""
    from paddock.cli.session import changing
    from paddock.run import verbs

    with changing("up", file, only, sets) as agents:
        for agent in agents:
            print(verbs.up(agent))
