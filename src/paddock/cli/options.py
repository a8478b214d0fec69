"""Options that verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_FILE = [Path("paddock.yaml")]


def agents_completion(context: typer.Context, incomplete: str) -> list[str]:
    """The names a shell can complete; of a file that is not right, none."""
    from paddock.errors import BadInput
    from paddock.recipes import load

    try:
        agents = load(*map(Path, context.params.get("file") or DEFAULT_FILE)).spec.agents
    except BadInput:
        return []
    return [name for name in agents if name.startswith(incomplete)]


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
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="AGENT", autocompletion=agents_completion, help="Only this agent; may be given again."
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many agents at once.")]
Agent = Annotated[str, typer.Argument(autocompletion=agents_completion, help="The agent's name in the file.")]
Json = Annotated[bool, typer.Option("--json", help="For machines.")]
Looked = Annotated[
    bool,
    typer.Option(
        "--looked", help="Do not look for the agent's files on the root disk of an adopted machine: you have."
    ),
]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Where a person has to do something, say what and exit with 4.")
]
