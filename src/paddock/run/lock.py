"""One run at a time on one agent, from one machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from paddock.errors import PaddockError
from paddock.run.journal import folder


class Busy(PaddockError):
    """Another run works on the same agent."""


@contextmanager
def working_on(agent: str) -> Iterator[None]:
    """Be the only run at work on an agent, or an error that says who is."""
    with _file(f"agent-{agent}") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise Busy(f"{agent}: another run is at work ({lock.read().strip()})", hint="wait for it to end") from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        yield


@contextmanager
def alone_in(place: str) -> Iterator[None]:
    """Wait for one's turn to make things in a place that another agent's run might make too."""
    with _file(f"place-{place}") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _file(name: str) -> Iterator[IO[str]]:
    """The file of a lock; the kernel frees it when the holder dies."""
    path = folder().parent / "locks" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("a+") as lock:
        yield lock
