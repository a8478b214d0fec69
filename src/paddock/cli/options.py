"""What several verbs have in common on the command line: options, and groups with a default verb."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

DEFAULT_FILE = [Path("paddock.yaml")]


def agents_completion(context: typer.Context, incomplete: str) -> list[str]:
    """Return the agent names that match, for shell completion. Empty when the file is not valid."""
    from paddock.base.errors import BadInput
    from paddock.kinds import load

    try:
        agents = load(*map(Path, context.params.get("file") or DEFAULT_FILE)).spec.agents
    except BadInput:
        return []
    return [name for name in agents if name.startswith(incomplete)]


File = Annotated[
    list[Path],
    typer.Option(
        "--file", "-f", metavar="FILE", help="File to read. May be repeated; later files override earlier ones."
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override one value of the file. May be repeated."),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="AGENT", autocompletion=agents_completion, help="Only this agent. May be repeated."),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of agents to work on at the same time.")]
Agent = Annotated[str, typer.Argument(autocompletion=agents_completion, help="Name of the agent in the file.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the steps.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Looked = Annotated[
    bool,
    typer.Option(
        "--looked",
        help="Skip the search for agent files on the root disk of an adopted machine. Use it after your own search.",
    ),
]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Do not wait for work that only a person can do: print it and exit with 4.")
]
New = Annotated[
    bool, typer.Option("--new", help="Create agents beside agents of the same name in other projects, or in none.")
]


def by_default(name: str) -> type[TyperGroup]:
    """Return a group whose default verb has this name."""

    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            # Completion parses the words typed so far, and then offers the names of all verbs.
            asked = args[:1] == ["--help"] or (ctx.resilient_parsing and not args)
            return super().parse_args(ctx, args if asked else self._named(args))

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            return super().resolve_command(ctx, self._named(args))

        def _named(self, args: list[str]) -> list[str]:
            return args if args and args[0] in self.commands else [name, *args]

    return Group
