"""One run at a time on one agent, from one machine.

These locks save time and no more: a run through another address of the same place does not meet them. What keeps two
runs from harm is on the node (numbers, digests, claims) and on the host.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

from paddock.diskfull import is_full, warn_not_written
from paddock.errors import PaddockError
from paddock.places import Place
from paddock.run.deployment import Deployment
from paddock.run.journal import folder


class Busy(PaddockError):
    """Another run works on the same agent."""


@contextmanager
def agent_lock(agent: Deployment) -> Iterator[None]:
    """Be the only run at work on an agent in its place, or an error that says who is."""
    with _file("agent", f"{agent.place.identity} {agent.name}") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise Busy(
                f"{agent.name}: another run is at work ({lock.read().strip()})", hint="wait for it to end"
            ) from None
        with contextlib.suppress(OSError):  # only a note, and the disk may be full
            lock.truncate(0)
            os.write(lock.fileno(), f"process {os.getpid()}".encode())
        yield


@contextmanager
def place_lock(place: Place[Any]) -> Iterator[None]:
    """Wait for one's turn to make things in a place that another agent's run might make too."""
    with _file("place", place.identity) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _file(kind: str, identity: str) -> Iterator[IO[str]]:
    """The file of a lock; the kernel frees it when the holder dies."""
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    path = folder().parent / "locks" / f"{kind}-{name}.lock"
    with ExitStack() as opened:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock: IO[str] = opened.enter_context(path.open("a+"))
        except OSError as error:
            if not is_full(error):
                raise
            # Two runs exclude each other on the node or host; this lock only tells them sooner.
            warn_not_written("the lock", error)
            lock = opened.enter_context(_of_nobody_else())
        yield lock


def _of_nobody_else() -> IO[str]:
    """A file to lock that takes no room and that no other run has open."""
    reading, writing = os.pipe()
    os.close(writing)
    return os.fdopen(reading)
