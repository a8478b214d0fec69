"""Load the file and open its agents for a verb, with a reporter and, for changes, a journal.

Modules that a run needs only after it has loaded the file are imported then, while it connects to the agent's machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.recipes import load
from paddock.spec.load import Loaded
from paddock.spec.support import supported

if TYPE_CHECKING:
    from paddock.run.deployment import Deployment


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
    loaded = supported(load(*files, sets=sets or ()), only or ())
    with _connecting(loaded, only, reaching=reaching):
        from paddock.run.deployment import deployments
        from paddock.run.reporter import Reporter

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
    loaded = supported(load(*files, sets=sets or ()), only or ())
    with _connecting(loaded, only, reaching=reaching):
        from paddock.run.deployment import deployments
        from paddock.run.journal import Journal
        from paddock.run.reporter import Reporter

        reporter = Reporter(Journal(verb, files), parallel=jobs > 1 and len(only or loaded.spec.agents) > 1)
        with reporter.run(), deployments(loaded, only or [], reporter, patient=patient) as found:
            yield [agent.beside_namesakes() for agent in found] if new else found


def _connecting(loaded: Loaded, only: list[str] | None, *, reaching: bool) -> AbstractContextManager[None]:
    if not reaching:
        return nullcontext()
    from paddock.run.early import connecting

    return connecting(loaded, only or [])
