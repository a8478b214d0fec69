"""``paddock template``: what machines are cloned from."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paddock.cli import app
from paddock.cli.options import DEFAULT_FILE, File, Json, Only

templates = typer.Typer(help="Templates that machines are cloned from.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(templates, name="template")


@templates.command()
def build(file: File = DEFAULT_FILE, only: Only = None) -> None:
    """Build the templates the agents of the file need and that are not there yet."""
    _build("template build", file, only, anew=False)


@templates.command()
def refresh(file: File = DEFAULT_FILE, only: Only = None) -> None:
    """Build them anew from the same inputs, with today's packages; machines follow with their next cycle."""
    _build("template refresh", file, only, anew=True)


def _build(verb: str, file: File, only: Only, *, anew: bool) -> None:
    from paddock.cli.session import changing
    from paddock.run import templates as work

    with changing(verb.replace(" ", "-"), file, only) as agents:
        for line in work.build(agents, anew=anew):
            print(line)


@templates.command(name="list")
def show(file: File = DEFAULT_FILE, as_json: Json = False) -> None:
    """List the templates of the file's places, and which machines were made from them."""
    from paddock.cli.session import looking
    from paddock.run import templates as work
    from paddock.run.table import columns

    with looking(file, None) as agents:
        rows = work.listed(agents)
    header = ["place", "vmid", "label", "template", "epoch", "made", "machines"]
    print(
        json.dumps(rows, indent=2)
        if as_json
        else columns([header, *([str(row[key]) for key in header] for row in rows)])
    )


@templates.command()
def prune(
    file: File = DEFAULT_FILE,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only tell what would go.")] = False,
) -> None:
    """Remove templates that no machine was made from, except the newest and the one before of each label."""
    from paddock.cli.session import changing
    from paddock.run import templates as work

    with changing("template-prune", file, None) as agents:
        for line in work.prune(agents, really=yes):
            print(line)
