"""``paddock status``: show a table of agents."""

from __future__ import annotations

import json

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, Only, Sets


@verb("paddock status --json")
def status(file: File = DEFAULT_FILE, sets: Sets = None, only: Only = None, as_json: Json = False) -> None:
    """Show machine, state, health, backups and pending changes of each agent."""
    from paddock.cli.session import looking
    from paddock.run.status import statuses, table

    with looking(file, only, sets) as agents:
        rows = statuses(agents)
    print(json.dumps([row.as_data() for row in rows], indent=2) if as_json else table(rows))
