"""``paddock backup``: make, list, check and remove backups."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paddock.cli import app, verb
from paddock.cli.groups import by_default
from paddock.cli.options import DEFAULT_FILE, Agent, File, Jobs, Json, Sets, agents_completion

backups = typer.Typer(cls=by_default("make"), help="Back up the state of agents.", rich_markup_mode=None)
app.add_typer(backups, name="backup")

Agents = Annotated[
    list[str] | None,
    typer.Argument(autocompletion=agents_completion, help="Names of agents; without any, all that have a backup."),
]


@verb("paddock backup hermes", "paddock backup make", of=backups)
def make(
    agents: Agents = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    jobs: Jobs = 2,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
) -> None:
    """Back up the state of agents to where the file says. The agents run on, unless Proxmox makes the backup."""
    from paddock.cli.session import changing
    from paddock.core.parallel import each
    from paddock.verbs import backup

    with changing("backup", file, agents, jobs, sets) as found:
        wanted = backup.with_backups(found, named=bool(agents))
        print("\n".join(each(wanted, jobs, backup.preview if dry_run else backup.back_up)))


@verb("paddock backup list hermes --json", of=backups, name="list")
def show(agents: Agents = None, file: File = DEFAULT_FILE, sets: Sets = None, as_json: Json = False) -> None:
    """List the backups of agents, the oldest first."""
    from paddock.cli.session import looking
    from paddock.show.table import columns
    from paddock.verbs import backup

    with looking(file, agents, sets) as found:
        rows = [row for agent in backup.with_backups(found, named=bool(agents)) for row in backup.listed(agent)]
    header = ["agent", "backup", "age", "files", "bytes", "size", "version", "purpose", "signed"]
    print(
        json.dumps(rows, indent=2)
        if as_json
        else columns([header, *([str(row[key]) for key in header] for row in rows)])
    )


@verb("paddock backup check hermes", of=backups)
def check(
    agent: Agent,
    which: Annotated[str | None, typer.Argument(help="Name of the backup; without it the newest.")] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
) -> None:
    """Read a backup back completely and compare each file with the manifest."""
    from paddock.cli.session import changing
    from paddock.verbs import backup

    with changing("backup-check", file, [agent], sets=sets) as found:
        print(backup.check_backup(found[0], which))


@verb("paddock backup prune hermes --dry-run", of=backups)
def prune(
    agents: Agents = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Remove the backups that `backup.keep` does not keep."""
    from paddock.cli.session import changing
    from paddock.verbs import backup

    with changing("backup-prune", file, agents, sets=sets) as found:
        for agent in backup.with_backups(found, named=bool(agents)):
            print("\n".join(backup.prune(agent, dry_run=dry_run)))
