"""Locks on this machine: one run at a time for each agent.

They only save time: a run that uses another address of the same place does not see them. Numbers, digests and claims on
the node, and a lock on the host, keep two runs from doing harm.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import IO, Final

from paddock.base import folders
from paddock.base.computer import state_folder
from paddock.base.errors import PaddockError, is_full, warn_not_written
from paddock.core.deployment import Deployment
from paddock.places.contract import AnyPlace

PLACE_IN_USE: Final = "waiting: another run is working at the same place"


class Busy(PaddockError):
    """Another run holds the lock of the same agent."""


def agent_lock(agent: Deployment) -> AbstractContextManager[None]:
    """Hold the agent lock. If another run has it, raise an error at once that names that run."""
    return _held("agent", agent)


def drill_lock(agent: Deployment) -> AbstractContextManager[None]:
    """Keep other runs from a drill of the same agent."""
    return _held("drill", agent)


@contextmanager
def _held(kind: str, agent: Deployment) -> Iterator[None]:
    with _file(kind, f"{agent.place.traits.identity} {agent.id}") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise Busy(
                f"{agent.name}: another run is working on it ({lock.read().strip()})", hint="wait for it to end"
            ) from None
        with contextlib.suppress(OSError):  # the text is only informative, and the disk may be full
            lock.truncate(0)
            os.write(lock.fileno(), f"process {os.getpid()}".encode())
        yield


@contextmanager
def place_lock(place: AnyPlace, waiting: Callable[[], AbstractContextManager[object]] = nullcontext) -> Iterator[None]:
    """Hold the place lock while creating shared resources. ``waiting`` shows that another run has it."""
    with _file("place", place.traits.identity) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with waiting():
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _file(kind: str, identity: str) -> Iterator[IO[str]]:
    """Open the file of a lock. The kernel releases the lock when its holder ends."""
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    path = state_folder() / "locks" / f"{kind}-{name}.lock"
    with ExitStack() as opened:
        try:
            folders.make_private(path.parent)
            lock: IO[str] = opened.enter_context(path.open("a+"))
        except OSError as error:
            if not is_full(error):
                raise
            # The node or the host also keeps two runs apart; this lock only reports it sooner.
            warn_not_written("the lock", error)
            lock = opened.enter_context(_of_nobody_else())
        yield lock


def _of_nobody_else() -> IO[str]:
    """Return a file to lock that needs no disk space and that no other run has open."""
    reading, writing = os.pipe()
    os.close(writing)
    return os.fdopen(reading)
