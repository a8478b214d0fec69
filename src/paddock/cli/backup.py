"""``paddock backup``, ``drill`` and ``memory``: make backups, prove that they can be restored, and read them."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from paddock.cli import app, verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Jobs, Json, Sets, agents_completion, by_default

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


@verb("paddock drill hermes", "paddock drill hermes 2026-11-16T02-02-12Z --real-model")
def drill(
    agent: Agent,
    which: Annotated[str | None, typer.Argument(help="Name of the backup; without it the newest.")] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the steps.")] = False,
    real_model: Annotated[
        bool, typer.Option("--real-model", help="Let the copy use the agent's own model instead of a stand-in.")
    ] = False,
) -> None:
    """Restore a backup to a throwaway copy of the agent that cannot act, have it recall a fact, and remove it."""
    from paddock.cli.session import changing
    from paddock.plan.step import as_text
    from paddock.verbs import drill as work

    with changing("drill", file, [agent], sets=sets) as agents:
        trial = work.Trial.of(agents[0], which, real_model=real_model)
        if dry_run:
            print("\n".join([as_text(work.plan(trial), {}), *(f"  + {step}" for step in work.later_steps(trial))]))
            return
        print(work.drill(trial))


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
