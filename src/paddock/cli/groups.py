"""Groups of verbs with one that need not be named."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


def by_default(name: str) -> type[TyperGroup]:
    """Return a group in which a verb of this name is meant unless another one is named."""

    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            # Completion parses what was typed so far, and then offers the names of all verbs.
            asked = args[:1] == ["--help"] or (ctx.resilient_parsing and not args)
            return super().parse_args(ctx, args if asked else self._named(args))

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            return super().resolve_command(ctx, self._named(args))

        def _named(self, args: list[str]) -> list[str]:
            return args if args and args[0] in self.commands else [name, *args]

    return Group
