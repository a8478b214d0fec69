"""The command line with all verbs, built once for a process: typer would build it again for every run."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import typer.main

from paddock import cli

_build: Final = typer.main.get_command


@cache
def command_line(app: typer.Typer = cli.app) -> Any:
    """Return the command line. It can replace ``typer.main.get_command`` for runs in this process."""
    cli.import_verbs()
    return _build(app)
