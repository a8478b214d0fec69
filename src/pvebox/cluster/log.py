"""The cluster's log: one line for the start and the end of each task, and for some of the tasks' actions."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

# Proxmox's log has a fixed size in bytes; older lines are dropped.
_KEPT: Final = 5000
_DEFAULT_PAGE: Final = 50
ERROR: Final = 3
INFO: Final = 6


@dataclass(frozen=True)
class Line:
    """One line of the log."""

    uid: int
    time: int
    node: str
    user: str
    pid: int
    priority: int
    text: str

    def entry(self) -> dict[str, Any]:
        """Return the line in the format of the API."""
        return {
            "uid": str(self.uid),
            "id": f"{self.uid}:{self.node}",
            "time": self.time,
            "node": self.node,
            "user": self.user,
            "tag": "pvedaemon",
            "pid": self.pid,
            "pri": self.priority,
            "msg": self.text,
        }


class ClusterLog:
    """The newest lines of the log."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=_KEPT)
        self._uids = itertools.count(1)
        self._lock = threading.Lock()

    def add(self, node: str, user: str, text: str, *, priority: int = INFO, pid: int | None = None) -> None:
        """Add a line, of the daemon or of the worker with a pid."""
        with self._lock:
            daemon = os.getpid() if pid is None else pid
            self._lines.append(Line(next(self._uids), int(time.time()), node, user, daemon, priority, text))

    def newest(self, user: str | None, limit: int) -> list[Line]:
        """Return the newest lines, of all users or of one, the latest first. A limit of 0 means the default."""
        with self._lock:
            matching = (line for line in reversed(self._lines) if user is None or line.user == user)
            return list(itertools.islice(matching, limit or _DEFAULT_PAGE))
