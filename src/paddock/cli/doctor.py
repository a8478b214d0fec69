"""``paddock doctor``: check the access to places."""

from __future__ import annotations

import json

import typer

from paddock.base.errors import Exit
from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, Sets


@verb("paddock doctor")
def doctor(file: File = DEFAULT_FILE, sets: Sets = None, as_json: Json = False) -> None:
    """Check access to the places, and print commands that grant missing privileges to the API token."""
    from paddock.cli.session import looking
    from paddock.verbs.doctor import as_text, examine

    with looking(file, None, sets) as agents:
        reports = examine(agents)
    print(json.dumps([report.as_data() for report in reports], indent=2) if as_json else as_text(reports))
    if any(report.missing for report in reports):
        raise typer.Exit(Exit.NEEDS_PERSON)
