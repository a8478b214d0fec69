"""The scheduled run: back up the agents of a file, remove old backups, and tell of failed and overdue ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Final

from paddock.backups.contract import BackupsSeen
from paddock.backups.open import destination_for
from paddock.base import clock
from paddock.base.errors import PaddockError, disk_full_error, is_full
from paddock.core.notify import Notifier
from paddock.core.open import deployments
from paddock.core.parallel import together
from paddock.file.agent_id import AgentId
from paddock.file.load import Loaded
from paddock.show.reporter import Reporter
from paddock.verbs import backup
from paddock.verify.backup import is_recent, newest_in_words

_AT_ONCE: Final = 4  # agents whose state is read at the same time
_LATE: Final = timedelta(hours=1)
_READING: Final = 120.0  # seconds in which a destination has to tell of its newest backup


def run(loaded: Loaded, reporter: Reporter) -> list[str]:
    """Back up all enabled agents that have a backup; return lines about the results.

    Each agent is opened by itself: if a token for one place is missing, the agents of other places are backed up.
    """
    if not any(spec.backup for spec in loaded.spec.agents.values()):
        raise backup.no_backups()
    notifiers = {
        name: Notifier.of_agent(loaded, name, reporter) for name, spec in loaded.spec.agents.items() if spec.backup
    }
    told = [line for name, notifier in notifiers.items() for line in _overdue(loaded, name, notifier, reporter)]
    pool = ThreadPoolExecutor(max_workers=_AT_ONCE)
    running = [pool.submit(_in_turn, loaded, names, reporter, notifiers) for names in _turns(loaded)]
    try:
        found = [result for each in running for result in each.result()]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    failed = [(name, result) for name, result in found if isinstance(result, PaddockError)]
    told += [result for _, result in found if isinstance(result, str)]
    if failed:
        raise together(told, failed)
    return told


def _turns(loaded: Loaded) -> list[list[str]]:
    """Return the agents to back up, those together that wait for each other: a node saves one pet after the other."""
    turns: dict[tuple[bool, str], list[str]] = {}
    for name, spec in loaded.spec.agents.items():
        if spec.backup and spec.enabled:
            on_node = spec.backup.to.proxmox is not None
            turns.setdefault((on_node, spec.place if on_node else name), []).append(name)
    return list(turns.values())


def _in_turn(
    loaded: Loaded, names: Sequence[str], reporter: Reporter, notifiers: Mapping[str, Notifier]
) -> list[tuple[str, str | PaddockError]]:
    """Back up agents one after the other; return a line or an error for each."""
    found: list[tuple[str, str | PaddockError]] = []
    for name in names:
        try:
            found.append((name, _one(loaded, name, reporter, notifiers[name])))
        except PaddockError as error:
            found.append((name, error))
        except OSError as error:
            if not is_full(error):
                raise
            found.append((name, disk_full_error(error)))
    return found


def tell_all(loaded: Loaded, reporter: Reporter, error: PaddockError) -> None:
    """Tell that no agent was backed up."""
    for name, spec in loaded.spec.agents.items():
        if spec.backup is not None and spec.enabled:
            Notifier.of_agent(loaded, name, reporter).failed("backup", error.message)


def _one(loaded: Loaded, name: str, reporter: Reporter, notifier: Notifier) -> str:
    """Back up one agent, and then remove its old backups: only a new backup makes older ones superfluous."""
    with ExitStack() as opened:
        with notifier.failures("backup"):
            [agent] = opened.enter_context(deployments(loaded, [name], reporter, patient=False))
            made = backup.make(agent)
        with notifier.failures("removal of old backups"):
            backup.prune(agent, dry_run=False)
    return made


def _overdue(loaded: Loaded, name: str, notifier: Notifier, reporter: Reporter) -> list[str]:
    """Tell of an agent whose newest backup is too old, before the first one is backed up, which may take long."""
    enabled, seen = loaded.spec.agents[name].enabled, _seen(loaded, name, notifier, reporter)
    if enabled and seen.newest is None and seen.unknown is None:
        return []  # its first backup
    # A timer that runs as often as the file allows finds a backup that is a little older.
    now = clock.now() - (_LATE if enabled else timedelta())
    words = newest_in_words(seen, now)
    if is_recent(seen, now):
        return [] if enabled else [f"{name}: not enabled, so not backed up now: {words}"]
    notifier.overdue(words)
    return [f"{name}: backup overdue: {words}"]


def _seen(loaded: Loaded, name: str, notifier: Notifier, reporter: Reporter) -> BackupsSeen:
    spec = loaded.spec.agents[name].backup
    assert spec is not None  # noqa: S101 - of agents with a backup
    if spec.to.proxmox is None:
        agent = AgentId(loaded.spec.project, name)
        until = clock.monotonic() + _READING
        return BackupsSeen.of(destination_for(spec, loaded.folder, agent, notifier.reporter.say, until), spec.max_age)
    try:
        with deployments(loaded, [name], reporter, patient=False) as [opened]:
            return BackupsSeen.of(backup.destination_of(opened), spec.max_age)
    except PaddockError as error:
        return BackupsSeen(spec.max_age, "its node", unknown=error.message)
