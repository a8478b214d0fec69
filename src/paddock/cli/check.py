"""``paddock check``: validate the file."""

from __future__ import annotations

import json

import typer

from paddock.base.errors import Exit
from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, Sets


@verb("paddock check -f paddock.yaml -f at-home.yaml --set agents.hermes.machine.memory=8G")
def check(file: File = DEFAULT_FILE, sets: Sets = None, as_json: Json = False) -> None:
    """Validate the file. Does not contact any place."""
    from paddock.file import check as checking
    from paddock.kinds import KINDS

    if as_json:
        report = checking.as_data(file, sets or (), KINDS)
        print(json.dumps(report, indent=2))
        raise typer.Exit(Exit.DONE if report["ok"] else Exit.BAD_INPUT)
    print(checking.summary(checking.checked(file, sets or (), KINDS)))
