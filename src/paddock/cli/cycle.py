"""``paddock cycle``: down and up."""

from __future__ import annotations

from paddock.cli import app
from paddock.cli.options import DEFAULT_FILE, File, Only


@app.command()
def cycle(file: File = DEFAULT_FILE, only: Only = None) -> None:
    """Recreate agents' machines; their state stays."""
    from paddock.cli.session import changing
    from paddock.run import verbs

    with changing("cycle", file, only) as agents:
        for agent in agents:
            print(verbs.cycle(agent))
