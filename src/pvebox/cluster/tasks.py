"""Tasks: background work with a UPID, a log and an exit status. The cluster's log has a line for each start and end."""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from pvebox.api.errors import INTERNAL, AbortedError, ApiError, NodeCrashError, ParameterError, SandboxError

_UPID = re.compile(
    r"UPID:([a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?):([0-9A-Fa-f]{8}):([0-9A-Fa-f]{8,9}):"
    r"([0-9A-Fa-f]{8}):([^:\s/]+):([^:\s/]*):([^:\s/]+):\Z"
)
# Proxmox's cluster log has a fixed size in bytes; older lines are dropped.
_LOG_LINES: Final = 5000
_LOG_PAGE: Final = 50
_ERROR: Final = 3
_INFO: Final = 6


@dataclass(frozen=True)
class Upid:
    """The id of a task, with the fields that Proxmox encodes in it."""

    node: str
    pid: int
    pstart: int
    starttime: int
    type: str
    id: str
    user: str

    def __str__(self) -> str:
        return (
            f"UPID:{self.node}:{self.pid:08X}:{self.pstart:08X}:{self.starttime:08X}:{self.type}:{self.id}:{self.user}:"
        )

    @classmethod
    def parse(cls, text: str) -> Upid:
        """Parse a UPID, or raise Proxmox's parameter error."""
        found = _UPID.match(text)
        if not found:
            raise ParameterError({"upid": "unable to parse worker upid"})
        node, pid, pstart, start, type_, id_, user = found.groups()
        return cls(node, int(pid, 16), int(pstart, 16), int(start, 16), type_, id_, user)


class TaskFault(Enum):
    """The effect of an injected fault: the task fails or warns at its end, or crashes at its first line of log."""

    FAILS = "fails"
    WARNS = "warns"
    CRASHES = "crashes"


@dataclass(frozen=True)
class InjectedOutcome:
    """An injected fault of a task. The work of the task does not matter."""

    fault: TaskFault
    words: str = ""


# The injected outcomes for the tasks that the current request starts.
INJECTED_OUTCOMES: ContextVar[tuple[InjectedOutcome, ...]] = ContextVar("injected_outcomes", default=())


@dataclass
class Task:
    """One task, running or finished."""

    upid: Upid
    log: list[str] = field(default_factory=list)
    exitstatus: str | None = None
    endtime: int | None = None
    warnings: int = 0
    aborted: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    cancel: Callable[[], None] | None = None
    injected_outcomes: tuple[InjectedOutcome, ...] = ()
    crashed: bool = False

    def say(self, *lines: str) -> None:
        """Append lines to the log. Raise if the node has crashed."""
        self.check_crashed()
        self.log.extend(lines)

    def warn(self, line: str) -> None:
        """Append a warning to the log. The task will end with `WARNINGS: N`."""
        self.warnings += 1
        self.log.append(f"WARN: {line}")

    def check_crashed(self) -> None:
        """Raise if the node has crashed."""
        if self.crashed:
            raise NodeCrashError

    def check_aborted(self) -> None:
        """Raise if the task was stopped or the node has crashed."""
        self.check_crashed()
        if self.aborted.is_set():
            raise AbortedError

    def crash(self) -> None:
        """Abort the work without any cleanup, as a crash of the node does."""
        self.crashed = True
        self.abort()

    def abort(self) -> None:
        """Ask the work to stop."""
        self.aborted.set()
        if self.cancel is not None:
            self.cancel()


Work = Callable[[Task], None]


def is_error(status: str) -> bool:
    """Return whether an exit status is neither success nor success with warnings."""
    return status != "OK" and not re.fullmatch(r"WARNINGS: \d+", status)


class ClusterLog:
    """The newest lines of the cluster's log, in the format of the API."""

    def __init__(self) -> None:
        self._lines: deque[dict[str, Any]] = deque(maxlen=_LOG_LINES)
        self._uids = itertools.count(1)
        self._lock = threading.Lock()

    def add(self, node: str, user: str, text: str, *, priority: int = _INFO, pid: int | None = None) -> None:
        """Add a line, of the daemon or of the worker with a pid."""
        with self._lock:
            uid, pid = next(self._uids), os.getpid() if pid is None else pid
            line = {"uid": str(uid), "id": f"{uid}:{node}", "time": int(time.time()), "node": node, "user": user}
            self._lines.append({**line, "tag": "pvedaemon", "pid": pid, "pri": priority, "msg": text})

    def newest(self, user: str | None, limit: int) -> list[dict[str, Any]]:
        """Return the newest lines, of all users or of one, the latest first. A limit of 0 means the default."""
        with self._lock:
            matching = (line for line in reversed(self._lines) if user is None or line["user"] == user)
            return list(itertools.islice(matching, limit or _LOG_PAGE))


class Tasks:
    """All tasks of a cluster, newest last. Finished tasks are saved in a file."""

    def __init__(self, archive: Path | None = None) -> None:
        self._tasks: dict[str, Task] = {}
        self._archive = archive
        self._lock = threading.Lock()
        self._pids = itertools.count(1000)
        self._boot = time.time() - 5000
        self.cluster_log = ClusterLog()
        self._load()

    def start(self, node: str, type_: str, id_: str, user: str, work: Work) -> str:
        """Start the work in a thread and return the UPID."""
        task = self._new(node, type_, id_, user)
        threading.Thread(target=self._run, args=(task, work), name=str(task.upid), daemon=True).start()
        return str(task.upid)

    def find(self, upid: str) -> Task | None:
        """Return the task with this UPID, or None."""
        return self._tasks.get(upid)

    def newest_first(self) -> Iterator[Task]:
        """Iterate over all tasks, the latest first."""
        with self._lock:
            return iter(list(self._tasks.values())[::-1])

    def wait(self, upid: str, timeout: float = 60) -> Task:
        """Wait until a task has finished and return it."""
        task = self._tasks[upid]
        if not task.ended.wait(timeout):
            raise TimeoutError(upid)
        return task

    def wait_for_all(self, timeout: float) -> None:
        """Wait until all running tasks have finished, or until the timeout."""
        until = time.monotonic() + timeout
        for task in self.running():
            task.ended.wait(max(0.0, until - time.monotonic()))

    def running(self) -> list[Task]:
        """Return the running tasks."""
        with self._lock:
            return [task for task in self._tasks.values() if task.exitstatus is None]

    def _new(self, node: str, type_: str, id_: str, user: str) -> Task:
        now = time.time()
        with self._lock:
            pid = next(self._pids)
            upid = Upid(node, pid, int((now - self._boot) * 100), int(now), type_, id_, user)
            outcomes = INJECTED_OUTCOMES.get()
            crashed = any(outcome.fault is TaskFault.CRASHES for outcome in outcomes)
            task = Task(upid, injected_outcomes=outcomes, crashed=crashed)
            self._tasks[str(upid)] = task
        self.cluster_log.add(node, user, f"starting task {upid}")
        self._write({"upid": str(upid)})
        return task

    def note(self, task: Task, text: str) -> None:
        """Write a line about a task's action into the cluster's log."""
        self.cluster_log.add(task.upid.node, task.upid.user, text, pid=task.upid.pid)

    def _run(self, task: Task, work: Work) -> None:
        error: str | None = None
        try:
            work(task)
            task.check_crashed()
            for outcome in task.injected_outcomes:
                if outcome.fault is TaskFault.FAILS:
                    error = outcome.words
                else:
                    task.warn(outcome.words)
        except NodeCrashError:
            task.crashed = False
            error = "unexpected status"
        except ApiError as failure:
            error = failure.printed.replace("\n", " ")
        except AbortedError:
            error = "received interrupt"
        except SandboxError as failure:
            error = failure.message
        except Exception:  # noqa: BLE001 - the task must end, whatever its work raises
            traceback.print_exc()
            error = INTERNAL
        self._end(task, error)

    def _end(self, task: Task, error: str | None) -> None:
        if error is not None:
            task.say(f"TASK ERROR: {error}")
            status = error
        elif task.warnings:
            status = f"WARNINGS: {task.warnings}"
            task.say(f"TASK {status}")
        else:
            status = "OK"
            task.say("TASK OK")
        task.endtime = int(time.time())
        task.exitstatus = status
        priority = _ERROR if is_error(status) else _INFO
        self.cluster_log.add(task.upid.node, task.upid.user, f"end task {task.upid} {status}", priority=priority)
        self._write({"upid": str(task.upid), "exitstatus": status, "endtime": task.endtime, "log": task.log})
        task.ended.set()

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self._archive is not None:
            with self._lock, self._archive.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def _load(self) -> None:
        if self._archive is None or not self._archive.exists():
            return
        for line in self._archive.read_text(encoding="utf-8").rstrip("\n").split("\n"):
            entry = json.loads(line)
            upid = Upid.parse(entry["upid"])
            # A task that ran when an earlier server was killed has no exit status in the file.
            status = entry.get("exitstatus", "unexpected status")
            task = Task(upid, entry.get("log", []), status, entry.get("endtime", upid.starttime))
            task.ended.set()
            self._tasks[entry["upid"]] = task
        if self._tasks:
            self._pids = itertools.count(max(task.upid.pid for task in self._tasks.values()) + 1)
