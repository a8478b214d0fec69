"""What the verbs share: the file, its agents, a story and a journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from paddock.recipes import load
from paddock.run.deployment import Deployment, deployments
from paddock.run.journal import Journal
from paddock.run.reporter import Reporter
from paddock.spec.support import supported


@contextmanager
def looking(
    files: Sequence[Path], only: list[str] | None, sets: Sequence[str] | None = None
) -> Iterator[list[Deployment]]:
    """The agents of the file, to look at."""
    loaded = supported(load(*files, sets=sets or ()), only or ())
    with deployments(loaded, only or [], Reporter()) as found:
        yield found


@contextmanager
def changing(
    verb: str,
    files: Sequence[Path],
    only: list[str] | None,
    jobs: int = 1,
    sets: Sequence[str] | None = None,
    *,
    patient: bool = True,
) -> Iterator[list[Deployment]]:
    """The agents of the file, to change; the journal tells of it. What takes a person is waited for if patient."""
    loaded = supported(load(*files, sets=sets or ()), only or ())
    reporter = Reporter(Journal(verb), parallel=jobs > 1 and len(only or loaded.spec.agents) > 1)
    with reporter.run(), deployments(loaded, only or [], reporter, patient=patient) as found:
        yield found
