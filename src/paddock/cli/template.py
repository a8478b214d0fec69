"""``paddock template``: build, list and remove the templates that machines are cloned from."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paddock.cli import app, verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Json, Only, Sets

templates = typer.Typer(
    help="Build, list and remove the templates that machines are cloned from.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(templates, name="template")


@verb("paddock template build", of=templates)
def build(file: File = DEFAULT_FILE, sets: Sets = None, only: Only = None) -> None:
    """Build the templates that agents of the file need and that do not exist yet."""
    _build("template build", file, sets, only, rebuild=False)


@verb("paddock template refresh --only hermes", of=templates)
def refresh(file: File = DEFAULT_FILE, sets: Sets = None, only: Only = None) -> None:
    """Rebuild the templates with today's packages. Machines use the new template after their next `cycle`."""
    _build("template refresh", file, sets, only, rebuild=True)


def _build(verb: str, file: File, sets: Sets, only: Only, *, rebuild: bool) -> None:
    from paddock.cli.session import changing
    from paddock.verbs import templates as work

    with changing(verb.replace(" ", "-"), file, only, sets=sets) as agents:
        for line in work.build(agents, rebuild=rebuild):
            print(line)


@verb("paddock template list --json", of=templates, name="list")
def show(file: File = DEFAULT_FILE, sets: Sets = None, as_json: Json = False) -> None:
    """List the templates in the places of the file, finished or not, with the machines made from each."""
    from paddock.cli.session import looking
    from paddock.show.table import columns
    from paddock.verbs import templates as work

    with looking(file, None, sets) as agents:
        rows = work.listed(agents)
    header = ["place", "vmid", "label", "template", "epoch", "made", "machines", "status"]
    print(
        json.dumps(rows, indent=2)
        if as_json
        else columns([header, *([str(row[key]) for key in header] for row in rows)])
    )


@verb("paddock template prune --yes", of=templates)
def prune(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove them. Without it, only list what would be removed.")
    ] = False,
) -> None:
    """Remove unused templates, except the two newest of each label, and what interrupted builds have left."""
    from paddock.cli.session import changing
    from paddock.verbs import templates as work

    with changing("template-prune", file, None, sets=sets) as agents:
        for line in work.prune(agents, really=yes):
            print(line)


@verb("paddock template lock hermes", of=templates)
def lock(agent: Agent, file: File = DEFAULT_FILE, sets: Sets = None) -> None:
    """Resolve the agent's version and extras with the package index, and write the lock to locks/ beside the file."""
    from paddock.cli.session import looking
    from paddock.verbs import templates as work

    with looking(file, [agent], sets) as agents:
        print(work.write_lock(agents[0]))
