"""One run at a time on one agent, from one machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.errors import PaddockError
from paddock.run.journal import folder


class Busy(PaddockError):
    """Another run works on the same agent."""


@contextmanager
def local_lock(name: str) -> Iterator[None]:
    """Hold the lock of that name; the kernel frees it when the holder dies."""
    path = folder().parent / "locks" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise Busy(f"{name}: another run is at work ({lock.read().strip()})", hint="wait for it to end") from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        yield
