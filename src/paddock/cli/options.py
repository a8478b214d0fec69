"""Options that verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[
    list[Path],
    typer.Option(
        "--file", "-f", metavar="FILE", help="The file that says what you want; later ones win over earlier ones."
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="One value instead of the file's; may be repeated."),
]
Only = Annotated[list[str] | None, typer.Option("--only", metavar="AGENT", help="Only this agent; may be given again.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many agents at once.")]
Agent = Annotated[str, typer.Argument(help="The agent's name in the file.")]
Json = Annotated[bool, typer.Option("--json", help="For machines.")]

DEFAULT_FILE = [Path("paddock.yaml")]
