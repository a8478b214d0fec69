"""The lock that lets one backup job at a time run on a node."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.cluster.tasks import Task

_FILE: Final = "/var/run/vzdump.lock"
_POLL: Final = 0.05
# Proxmox gives an interrupted job this many seconds to end.
_STOP_SECONDS: Final = 15


class JobLock:
    """The lock of one node, and the task that holds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: Task | None = None

    @contextlib.contextmanager
    def held_by(self, task: Task, minutes: int) -> Iterator[None]:
        """Hold the lock for a task. If another job runs, log that, and wait for at most `minutes`."""
        if not self._lock.acquire(blocking=False):
            self._wait(task, minutes)
        self._holder = task
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()

    def stop_holder(self) -> None:
        """Stop the running job and wait for its end. Raise if it does not end."""
        task = self._holder
        if task is None:
            return
        task.abort()
        if not task.ended.wait(_STOP_SECONDS):
            raise OperationError(f"stopping backup process {task.upid.pid} failed")

    def _wait(self, task: Task, minutes: int) -> None:
        if not minutes:
            raise _not_locked(task, f"can't acquire lock '{_FILE}' (wait = 0)")
        task.say("INFO: trying to get global lock - waiting...")
        until = time.monotonic() + minutes * 60
        while not self._lock.acquire(timeout=_POLL):
            if task.aborted.is_set():
                raise _not_locked(task, f"can't acquire lock '{_FILE}' - interrupted by signal")
            if time.monotonic() >= until:
                raise _not_locked(task, f"can't acquire lock '{_FILE}' - got timeout")
        task.say("INFO: got global lock")


def _not_locked(task: Task, message: str) -> OperationError:
    task.say(f"ERROR: {message}")
    # The process exits without a status, so Proxmox reports this one.
    return OperationError("unexpected status")
