"""Load the file and open its agents for a verb, with a reporter and, for changes, a journal.

Modules that a run needs only after it has loaded the file are imported then, while it connects to the agent's machine.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from paddock.base.errors import NeedsPerson
from paddock.cli.options import DEFAULT_FILE
from paddock.core import approval
from paddock.file.load import Loaded
from paddock.kinds import load

if TYPE_CHECKING:
    from paddock.core.deployment import Deployment
    from paddock.file.commands import Command


@contextmanager
def looking(
    files: Sequence[Path],
    only: list[str] | None,
    sets: Sequence[str] | None = None,
    *,
    new: bool = False,
    reaching: bool = False,
) -> Iterator[list[Deployment]]:
    """Open the chosen agents of the file for a verb that changes nothing.

    With `new`, agents of the same name in other projects are other agents. A verb that is ``reaching`` the machine
    begins to connect at once.
    """
    loaded = approved(load(*files, sets=sets or ()), files)
    with _connecting(loaded, only, reaching=reaching):
        from paddock.core.open import deployments
        from paddock.show.reporter import Reporter

        with deployments(loaded, only or [], Reporter()) as found:
            yield [agent.beside_namesakes() for agent in found] if new else found


@contextmanager
def changing(
    verb: str,
    files: Sequence[Path],
    only: list[str] | None,
    jobs: int = 1,
    sets: Sequence[str] | None = None,
    *,
    patient: bool = True,
    new: bool = False,
    reaching: bool = False,
) -> Iterator[list[Deployment]]:
    """Open the chosen agents of the file for a verb that changes something, and write a journal.

    With `patient`, the run waits for work that only a person can do. With `new`, agents of the same name in other
    projects are other agents. A verb that is ``reaching`` the machine begins to connect at once.
    """
    loaded = approved(load(*files, sets=sets or ()), files)
    with _connecting(loaded, only, reaching=reaching):
        from paddock.core.open import deployments
        from paddock.show.journal import Journal
        from paddock.show.reporter import Reporter

        reporter = Reporter(Journal(verb, files), parallel=jobs > 1 and len(only or loaded.spec.agents) > 1)
        with reporter.run(), deployments(loaded, only or [], reporter, patient=patient) as found:
            yield [agent.beside_namesakes() for agent in found] if new else found


def _connecting(loaded: Loaded, only: list[str] | None, *, reaching: bool) -> AbstractContextManager[None]:
    if not reaching:
        return nullcontext()
    from paddock.core.observe import connecting

    return connecting(loaded, only or [])


def approved(loaded: Loaded, files: Sequence[Path]) -> Loaded:
    """Return the file if the account approves what it starts: asked once on a terminal, refused without one."""
    new = approval.unapproved(loaded)
    if not new:
        return loaded
    if not sys.stdin.isatty():
        lines = "\n".join(f"  {command.shown()}" for command in new)
        named = "".join(f" -f {shlex.quote(str(file))}" for file in files if [*files] != DEFAULT_FILE)
        raise NeedsPerson(
            f"{loaded.path.name} starts what this account has not approved:\n{lines}",
            hint=f"read that, and run `paddock approve{named}`; with --yes it does not ask",
        )
    show(loaded, new)
    if not typer.confirm("Run this in your account, now and from now on?", err=True):
        raise NeedsPerson("not approved; nothing was run")
    approval.approve(loaded)
    return loaded


def show(loaded: Loaded, new: Sequence[Command]) -> None:
    """Print what a file would start, with nothing cut or invisible."""
    print(f"{loaded.path.name} starts this on this computer:", file=sys.stderr)
    for command in new:
        print(f"  {command.shown()}", file=sys.stderr)
