"""``paddock memory``: show what an agent has learned, from its backups."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Json, Sets


class What(StrEnum):
    SHOW = "show"
    HISTORY = "history"
    DIFF = "diff"


# How many names of backups each of them takes.
_NAMES = {What.SHOW: 1, What.HISTORY: 0, What.DIFF: 2}


@verb(
    "paddock memory hermes",
    "paddock memory hermes history",
    "paddock memory hermes diff 2026-11-14T03-00-00Z 2026-11-16T03-00-00Z",
)
def memory(
    agent: Agent,
    what: Annotated[
        What,
        typer.Argument(
            help="show: the texts of a backup. history: which backup changed which text. diff: two backups."
        ),
    ] = What.SHOW,
    backups: Annotated[
        list[str] | None,
        typer.Argument(help="Names of backups: one for show, two for diff. Without them the newest ones."),
    ] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Show what an agent had learned when its backups were made. No backup is unpacked."""
    from paddock.base.errors import BadInput
    from paddock.cli.session import looking
    from paddock.verbs import memory as work

    names = backups or []
    if len(names) > _NAMES[what]:
        raise BadInput(f"`paddock memory {agent} {what}` takes at most {_NAMES[what]} names of backups")
    first, second = [*names, None, None][:2]
    with looking(file, [agent], sets) as found:
        match what:
            case What.SHOW:
                result: work.Shown | work.History | work.Difference = work.show(found[0], first)
            case What.HISTORY:
                result = work.history(found[0])
            case What.DIFF:
                result = work.diff(found[0], first, second)
    print(json.dumps(result.as_data(), indent=2) if as_json else result.as_text())
