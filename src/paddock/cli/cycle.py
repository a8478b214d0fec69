"""``paddock cycle``: down and up."""

from __future__ import annotations

from paddock.cli import app
from paddock.cli.options import DEFAULT_FILE, File, Jobs, Only


@app.command()
def cycle(file: File = DEFAULT_FILE, only: Only = None, jobs: Jobs = 4) -> None:
    """Recreate agents' machines; their state stays."""
    from paddock.cli.session import changing
    from paddock.run import verbs
    from paddock.run.parallel import each

    with changing("cycle", file, only, jobs) as agents:
        print("\n".join(each(agents, jobs, verbs.cycle)))
