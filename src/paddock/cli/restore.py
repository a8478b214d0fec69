"""``paddock restore``: replace an agent's state with a backup."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paddock.base.errors import BadInput
from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, DryRun, File, Sets

if TYPE_CHECKING:
    from paddock.backups.contract import Backup
    from paddock.core.deployment import Deployment
    from paddock.verbs.backup import Known


@verb(
    "paddock restore hermes",
    "paddock restore hermes 2026-11-16T02-02-12Z",
    "paddock restore hermes --as hermes-2",
    "paddock restore hermes --undo",
)
def restore(
    agent: Agent,
    which: Annotated[str | None, typer.Argument(help="Name of the backup; without it the newest.")] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Restore to a new agent of this name, beside the agent.")
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Go back to the state from before a restore that did not end.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard-state", help="Replace the state without a copy of it. Asks for the agent's name.")
    ] = False,
    unproven: Annotated[
        bool,
        typer.Option("--unproven", help="Do not ask about a backup that is not encrypted or signed as later ones are."),
    ] = False,
) -> None:
    """Replace an agent's state with a backup. The present state is saved first, as another backup."""
    from paddock.cli.session import changing
    from paddock.plan.step import as_text
    from paddock.verbs import restore as work
    from paddock.verbs.backup import known
    from paddock.verbs.backup import question as doubts

    if undo and (which or name or dry_run or discard):
        raise BadInput("--undo takes no backup and no other option but --yes", hint=f"`paddock restore {agent} --undo`")
    if name and discard:
        raise BadInput("a new agent has no state to discard", hint="leave out --discard-state, or --as")
    with changing("restore", file, [agent], sets=sets) as agents:
        if undo:
            work.expect_undo(agents[0])
            question = f"Delete what {agent} has learned since the restore, and go back to its state from before?"
            _ask(question, yes=yes)
            print(work.undo(agents[0]))
            return
        found = known(agents[0], work.choose(agents[0], which), unproven=unproven)
        backup = found.backup
        if found.doubts and dry_run:
            agents[0].reporter.say(doubts(agents[0], found))
        elif not unproven:
            _ask_about(agents[0], found)
        if name is not None:
            _restore_as(agents[0], backup, _new_name(name, file, sets), dry_run=dry_run)
            return
        plan = work.plan(agents[0], backup, discards=discard)
        if dry_run:
            print(as_text(plan, {}))
            return
        if discard:
            _ask_for_name(agent)
        elif not yes:
            _ask(work.question(agents[0], found), yes=False)
        print(work.restore(agents[0], backup, discards=discard, made=found.made))


def _ask(question: str, *, yes: bool) -> None:
    if not yes and not typer.confirm(question, err=True):
        raise BadInput("nothing was changed")


def _ask_about(agent: Deployment, found: Known) -> None:
    """Ask about a backup that may be somebody else's. `--yes` does not answer this."""
    from paddock.verbs.backup import expect_certain, question

    if not found.doubts:
        return
    if not sys.stdin.isatty():
        expect_certain(agent, found)
    _ask(f"{question(agent, found)}.\nRestore it all the same?", yes=False)


def _ask_for_name(agent: str) -> None:
    question = f"What {agent} has learned since the backup is lost for good. Type the agent's name"
    if typer.prompt(question, err=True) != agent:
        raise BadInput("that is not the agent's name; nothing was changed")


def _new_name(name: str, files: Sequence[Path], sets: Sequence[str] | None) -> str:
    """Return the name of a new agent, if the file could have one of that name and does not."""
    from pydantic import TypeAdapter, ValidationError

    from paddock.file.models.fields import Name
    from paddock.kinds import load

    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise BadInput(
            "--as needs a name: at most 31 lower case letters, digits and -, beginning with a letter"
        ) from None
    if name in load(*files, sets=sets or ()).spec.agents:
        raise BadInput(
            f"there is an agent {name} in the file", hint="choose a name that no agent has; without --as it is replaced"
        )
    return name


def _restore_as(agent: Deployment, backup: Backup, name: str, *, dry_run: bool) -> None:
    from paddock.plan.step import as_text
    from paddock.verbs import restore as work

    copy = work.copy(agent, backup, name)
    print(as_text(work.plan_as(copy), {}) if dry_run else work.restore_as(copy, backup))
