"""``paddock cycle``: down and up."""

from __future__ import annotations

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Only, Sets


@verb("paddock cycle --only hermes")
def cycle(file: File = DEFAULT_FILE, sets: Sets = None, only: Only = None) -> None:
    """Recreate agents' machines; their state stays."""
    from paddock.cli.session import changing
    from paddock.run import verbs

    with changing("cycle", file, only, sets) as agents:
        for agent in agents:
            print(verbs.cycle(agent))
