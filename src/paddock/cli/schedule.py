"""``paddock schedule``: back up agents regularly, with a systemd timer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from paddock.cli import app, verb
from paddock.cli.options import DEFAULT_FILE, File, Sets, by_default

if TYPE_CHECKING:
    from paddock.file.load import Loaded
    from paddock.verbs.trusted_files import Changeable

schedules = typer.Typer(
    cls=by_default("install"), help="Back up agents regularly, with a systemd timer.", rich_markup_mode=None
)
app.add_typer(schedules, name="schedule")

On = Annotated[
    str | None,
    typer.Option(
        "--on", metavar="HOST", help="A host that is always on: a host place of the file, or user@host. Default: here."
    ),
]
Folder = Annotated[
    str | None,
    typer.Option("--folder", metavar="PATH", help="Folder of the file on that host, if it has another path there."),
]


@verb(
    "paddock schedule",
    "paddock schedule install --at 03:30 --dry-run",
    "paddock schedule --on backup@nas --folder /srv/agents",
    of=schedules,
)
def install(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    at: Annotated[str, typer.Option("--at", metavar="WHEN", help="When, as systemd writes it.")] = "daily",
    on: On = None,
    folder: Folder = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the units.")] = False,
) -> None:
    """Install a timer that backs up all agents with a backup. It is tried first, and not installed if that fails."""
    from paddock.cli.session import approved
    from paddock.core import approval
    from paddock.show.journal import Journal
    from paddock.show.reporter import Reporter
    from paddock.verbs import schedule
    from paddock.verbs.backup import no_backups
    from paddock.verbs.trusted_files import Changeable, refusal

    if _elsewhere(["install", "--at", at, *(["--dry-run"] if dry_run else [])], file, sets, on, folder):
        return
    loaded = _trusted(file, sets)
    if isinstance(loaded, Changeable):
        raise refusal(loaded, file)
    if not any(agent.backup for agent in loaded.spec.agents.values()):
        raise no_backups()
    timer = schedule.timer_for(loaded, file, sets or (), at)
    if dry_run:
        print(schedule.shown(timer))
        return
    approved(loaded, file)
    approval.met(file)
    reporter = Reporter(Journal("schedule", file))
    with reporter.run():
        print(schedule.install(timer, reporter.of(timer.project)))


@verb("paddock schedule remove", of=schedules)
def remove(file: File = DEFAULT_FILE, sets: Sets = None, on: On = None, folder: Folder = None) -> None:
    """Remove the timer. The backups stay."""
    from paddock.kinds import load
    from paddock.show.journal import Journal
    from paddock.show.reporter import Reporter
    from paddock.verbs import schedule

    if _elsewhere(["remove"], file, sets, on, folder):
        return
    timer = schedule.timer_for(load(*file, sets=sets or ()), file, sets or (), "daily")
    reporter = Reporter(Journal("schedule", file))
    with reporter.run():
        print(schedule.remove(timer, reporter.of(timer.project)))


@verb("paddock schedule run", of=schedules)
def run(file: File = DEFAULT_FILE, sets: Sets = None) -> None:
    """Do now what the timer does: back up, remove old backups, and notify of failed and overdue ones."""
    from paddock.base.errors import NeedsPerson
    from paddock.cli.session import approved
    from paddock.core import approval
    from paddock.show.journal import Journal
    from paddock.show.reporter import Reporter
    from paddock.verbs import schedule, scheduled
    from paddock.verbs.trusted_files import Changeable, refusal, run_as_owner

    loaded = _trusted(file, sets)
    if isinstance(loaded, Changeable):
        code = run_as_owner(loaded, file, sets or ())
        if code is None:
            raise refusal(loaded, file)
        raise typer.Exit(code)
    approval.approve_earlier_schedule(loaded, file, installed=schedule.is_installed(loaded.spec.project, file[0]))
    reporter = Reporter(Journal("schedule-run", file))
    try:
        approved(loaded, file)
    except NeedsPerson as error:
        scheduled.tell_all(loaded, reporter, error)
        raise
    with reporter.run():
        print("\n".join(scheduled.run(loaded, reporter)))


def _trusted(file: File, sets: Sets) -> Loaded | Changeable:
    """Load the file. For root, return instead the parts of a timer's run that other accounts can change, if any."""
    import os

    from paddock.kinds import load
    from paddock.verbs import schedule
    from paddock.verbs.trusted_files import of_files, of_loaded

    if os.geteuid():
        return load(*file, sets=sets or ())
    found = of_files(file)
    if found.weak:
        return found
    loaded = load(*file, sets=sets or ())
    found = of_loaded(loaded, schedule.environment_file(loaded.spec.project))
    if found.weak:
        return found
    # The files that it names were read together with it, before anybody looked at them. They are read again.
    return load(*file, sets=sets or ())


def _elsewhere(words: list[str], file: File, sets: Sets, on: str | None, folder: str | None) -> bool:
    """Run the verb on another host, if one is named; return whether it was."""
    from paddock.base.errors import BadInput
    from paddock.kinds import load
    from paddock.verbs.schedule import host_of, paddock_on, paths_there

    if on is None:
        if folder is not None:
            raise BadInput("--folder needs --on")
        return False
    loaded = load(*file, sets=sets or ())
    there, files = paths_there(loaded, file, folder)
    named = [word for each in files for word in ("--file", each)]
    changed = [word for each in sets or () for word in ("--set", each)]
    code = paddock_on(host_of(on, loaded), there, files, ["schedule", *words, *named, *changed])
    if code:
        raise typer.Exit(code)
    return True
