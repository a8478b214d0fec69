"""``paddock upgrade`` and ``paddock rollback``: change the version of an agent, and go back."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, DryRun, File, Sets


@verb("paddock upgrade hermes", "paddock upgrade hermes --to 0.19.0 --dry-run")
def upgrade(
    agent: Agent,
    to: Annotated[
        str | None, typer.Option("--to", metavar="VERSION", help="Version. Default: the newest one with a lock.")
    ] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    dry_run: DryRun = False,
) -> None:
    """Change the version of an agent, also in the file. If it fails, the old version and the old state come back."""
    from paddock.cli.session import changing, looking
    from paddock.core import converge
    from paddock.core.resolve import Asked
    from paddock.file import edit
    from paddock.plan.step import as_text
    from paddock.verbs import upgrade as work

    with looking(file, [agent], sets) as agents:
        version = work.target(agents[0], to)
        same = version in (None, getattr(agents[0].spec, "version", None))
    said = work.said(version) if version else {}
    if dry_run:
        with looking(file, [agent], [*(sets or ()), *edit.as_assignments(agent, said)]) as agents:
            print(as_text(converge.plan(agents[0], Asked(pull=True)), {}))
        return
    # The file comes first: if this run is killed, a plain `up` goes on with it.
    rewritten = None if same else edit.write_into(file, agent, said)
    opened = False
    try:
        with changing("upgrade", file, [agent], sets=sets) as agents:
            if version:
                work.expect_version(agents[0], version)
            opened = True
            if rewritten:
                print(f"wrote version {version} into {rewritten.path}", file=sys.stderr)
            print(work.upgrade(agents[0], rewritten, file))
    finally:
        if rewritten and not opened:
            rewritten.undo()


@verb("paddock rollback hermes", "paddock rollback hermes --dry-run")
def rollback(
    agent: Agent,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Go back to the version and the state that an agent had before its last upgrade. Its present state is saved."""
    from paddock.base.errors import BadInput
    from paddock.cli.session import changing, looking
    from paddock.file import edit
    from paddock.plan.step import as_text
    from paddock.verbs import upgrade as work
    from paddock.verbs.upgrade import said_before

    with looking(file, [agent], sets) as agents:
        found = work.planned(agents[0])
        former = said_before(agents[0], found.last)
    if dry_run:
        print(as_text(found.plan, {}))
        print(found.lost, file=sys.stderr)
        return
    question = f"{found.lost}. A backup keeps it.\nGo back from {found.last.after} to {found.last.before}?"
    if not yes and not typer.confirm(question, err=True):
        raise BadInput("nothing was changed")
    with changing("rollback", file, [agent], sets=sets) as agents:
        print(work.rollback(agents[0], found.last, lambda: edit.write_into(file, agent, former).undo))
