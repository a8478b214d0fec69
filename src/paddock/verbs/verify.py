"""The verb `verify`: all checks of an agent and of its backups, whose destination may never answer."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

from paddock.backups.contract import BackupsSeen
from paddock.base import clock
from paddock.core.deployment import Deployment
from paddock.core.verify import Report, verify_without_backups
from paddock.file.models.quantities import Duration
from paddock.verbs.backup import destination_of
from paddock.verify import backup as backup_checks

_PATIENCE: Final = 60.0  # seconds for the destination of backups to answer
_GRACE: Final = 1.0  # seconds for a program to end by itself when its time is over


class BackupsAsked:
    """A question to the destination of an agent's backups, which is asked at once and answered later."""

    def __init__(self, agent: Deployment, patience: float) -> None:
        self._patience = patience
        self._end = time.monotonic() + patience
        self._max_age = agent.spec.backup.max_age if agent.spec.backup else None
        self._answers: SimpleQueue[BackupsSeen] = SimpleQueue()
        self._answer: BackupsSeen | None = None
        if self._max_age is not None:
            # A daemon: a thread that waits for a dead network share cannot be ended.
            Thread(target=partial(self._ask, agent, self._max_age), daemon=True).start()

    def _ask(self, agent: Deployment, max_age: Duration) -> None:
        try:
            seen = BackupsSeen.of(destination_of(agent, self._end - _GRACE), max_age)
        except Exception as error:  # noqa: BLE001 - an error in a thread would look like a destination that is silent
            seen = BackupsSeen(max_age, "", unknown=str(error) or type(error).__name__)
        self._answers.put(seen)

    def seen(self) -> BackupsSeen | None:
        """Wait for the answer until the patience is at its end; None if the file has no backup for the agent."""
        if self._max_age is None:
            return None
        if self._answer is None:
            try:
                self._answer = self._answers.get(timeout=max(self._end - time.monotonic(), 0))
            except Empty:
                why = f"the destination did not answer within {self._patience:.0f} s"
                self._answer = BackupsSeen(self._max_age, "", unknown=why)
        return self._answer


def verify(agent: Deployment) -> Report:
    """Observe an agent and run all checks, also those of its backups."""
    backups = BackupsAsked(agent, _PATIENCE)
    report = verify_without_backups(agent)
    seen = backups.seen()
    told = backup_checks.lines(agent.name, seen, clock.now()) if seen else ()
    return replace(report, lines=[*report.lines, *told])
