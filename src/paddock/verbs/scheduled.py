"""The scheduled run: back up the agents of a file, remove old backups, and tell of failed and overdue ones."""

from __future__ import annotations

from contextlib import ExitStack

from paddock.backups.contract import BackupsSeen
from paddock.backups.open import destination_for
from paddock.base import clock
from paddock.base.errors import PaddockError, disk_full_error, is_full
from paddock.core.notify import Notifier
from paddock.core.open import deployments
from paddock.core.parallel import together
from paddock.file.agent_id import AgentId
from paddock.file.load import Loaded
from paddock.file.models.agent import AgentSpec
from paddock.show.reporter import Reporter
from paddock.verbs import backup
from paddock.verify.backup import is_recent, newest_in_words


def run(loaded: Loaded, reporter: Reporter) -> list[str]:
    """Back up all enabled agents that have a backup; return lines about the results.

    Each agent is opened by itself: if a token for one place is missing, the agents of other places are backed up.
    """
    if not any(spec.backup for spec in loaded.spec.agents.values()):
        raise backup.no_backups()
    told: list[str] = []
    failed: list[tuple[str, PaddockError]] = []
    for name, spec in loaded.spec.agents.items():
        if spec.backup is None:
            continue
        notifier = Notifier.of_agent(loaded, name, reporter)
        try:
            if spec.enabled:
                told += _one(loaded, name, reporter, notifier)
                continue
        except PaddockError as error:
            failed.append((name, error))
        except OSError as error:
            if not is_full(error):
                raise
            failed.append((name, disk_full_error(error)))
        told += _overdue(loaded, name, spec, notifier)
    if failed:
        raise together(told, failed)
    return told


def tell_all(loaded: Loaded, reporter: Reporter, error: PaddockError) -> None:
    """Tell that no agent was backed up."""
    for name, spec in loaded.spec.agents.items():
        if spec.backup is not None and spec.enabled:
            Notifier.of_agent(loaded, name, reporter).failed("backup", error.message)


def _one(loaded: Loaded, name: str, reporter: Reporter, notifier: Notifier) -> list[str]:
    """Back up one agent, and then remove its old backups: only a new backup makes older ones superfluous."""
    with ExitStack() as opened:
        with notifier.failures("backup"):
            [agent] = opened.enter_context(deployments(loaded, [name], reporter, patient=False))
            made = backup.make(agent)
        with notifier.failures("removal of old backups"):
            backup.prune(agent, dry_run=False)
    return [made]


def _overdue(loaded: Loaded, name: str, spec: AgentSpec, notifier: Notifier) -> list[str]:
    """Tell of an agent that was not backed up now, if its newest backup is too old."""
    if spec.backup is None:
        return []
    destination = destination_for(spec.backup, loaded.folder, AgentId(loaded.spec.project, name), notifier.reporter.say)
    seen, now = BackupsSeen.of(destination, spec.backup.max_age), clock.now()
    words = newest_in_words(seen, now)
    if is_recent(seen, now):
        return [] if spec.enabled else [f"{name}: not enabled, so not backed up now: {words}"]
    notifier.overdue(words)
    return [f"{name}: backup overdue: {words}"]
