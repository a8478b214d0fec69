"""``paddock down``: take machines away, keep what agents know."""

from __future__ import annotations

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Only, Sets


@verb("paddock down --only hermes")
def down(file: File = DEFAULT_FILE, sets: Sets = None, only: Only = None) -> None:
    """Take agents down: their machines go, their state stays."""
    from paddock.cli.session import changing
    from paddock.run import verbs

    with changing("down", file, only, sets) as agents:
        for agent in agents:
            print(verbs.down(agent))
