"""``paddock verify`` and ``doctor``: check agents, and the access to places."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paddock.base.errors import Exit
from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, Sets, agents_completion


@verb("paddock verify hermes --json")
def verify(
    agents: Annotated[
        list[str] | None, typer.Argument(autocompletion=agents_completion, help="Agents to verify. Default: all.")
    ] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Run all checks of agents and print the evidence of each. Exits with 1 if a check fails."""
    from paddock.cli.session import looking
    from paddock.verbs import verify as work

    with looking(file, agents, sets) as found:
        reports = [work.verify(agent) for agent in found]
    if as_json:
        print(json.dumps([report.as_data() for report in reports], indent=2))
    else:
        print("\n".join(report.as_text() for report in reports))
    if not all(report.ok for report in reports):
        raise typer.Exit(Exit.FAILED)


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
