"""Faults of the API: which kinds of requests there are, what can go wrong with each, and a node that does it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import httpx

from places.node import Node, Sent
from pvebox.guests.lifecycle import start_on_boot

NOTE: Final = "checked by the night shift"  # what somebody else writes into a container's notes

_PARTS: Final = (
    (re.compile(r"/tasks/UPID:[^/]+"), "/tasks/{upid}"),
    (re.compile(r"/content/.+"), "/content/{volume}"),
    (re.compile(r"/storage/[^/]+"), "/storage/{storage}"),
    (re.compile(r"/lxc/\d+"), "/lxc/{vmid}"),
    (re.compile(r"/users/[^/]+"), "/users/{user}"),
    (re.compile(r"/nodes/[^/]+"), "/nodes/{node}"),
)
_NUMBER: Final = re.compile(r"/lxc/(\d+)")
# Requests that change something and start no task: Proxmox has done the work when it answers.
_AT_ONCE: Final = ("/config", "/content/{volume}", "/template")


@dataclass(frozen=True, order=True)
class Kind:
    """A kind of request: its method and path without names and numbers, and what a change of a configuration sets."""

    method: str
    path: str
    keys: str = ""

    @classmethod
    def of(cls, sent: Sent) -> Kind:
        path = sent.path
        for pattern, name in _PARTS:
            path = pattern.sub(name, path)
        keys = sorted(re.sub(r"\d+$", "N", key) for key in sent.params if key != "digest")
        is_config = sent.writes and path.endswith("/config")
        return cls(sent.method, path, ",".join(keys) if is_config or sent.method == "GET" else "")

    def __str__(self) -> str:
        return f"{self.method} {self.path}" + (f" ({self.keys})" if self.keys else "")

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def starts_task(self) -> bool:
        return self.writes and (self.method == "DELETE" or not self.path.endswith(_AT_ONCE))

    @property
    def group(self) -> str:
        """Whether it reads, starts a task, or changes something at once."""
        return "task" if self.starts_task else "change" if self.writes else "read"

    @property
    def of_a_container(self) -> bool:
        return "/lxc" in self.path


class Fault(StrEnum):
    """What goes wrong."""

    ERROR = "500"
    BUSY = "503"
    PROXY_BEFORE = "596, nothing done"
    PROXY_AFTER = "596, work done"
    RESET_BEFORE = "reset, nothing done"
    RESET_AFTER = "reset, work done"
    STALL = "no answer before the deadline"
    TASK_FAILED = "task failed"
    TASK_WARNINGS = "task WARNINGS"
    CONFLICT = "digest conflict"
    LOCKED = "lock timeout"
    TASK_LOCKED = "lock timeout in the task"
    CRASH_BACK = "node crashed, back at once"
    CRASH_DOWN = "node crashed, down until the run ends"

    @property
    def crashes(self) -> bool:
        """Whether the node goes down: its tasks clean nothing up."""
        return self in (Fault.CRASH_BACK, Fault.CRASH_DOWN)


WHY_NOT: Final = {
    "a read": "a read does no work, so an answer lost after the work is the same as one lost before; it starts no task,"
    " has no digest and takes no lock",
    "no task": "the request starts no task that could fail, warn or time out",
    "no digest": "the request has no digest: Proxmox compares nothing",
    "no lock": "the request takes the lock of no container",
    "once": "the command sends the request only once",
}


def unfit(fault: Fault, kind: Kind, *, has_digest: bool) -> str | None:
    """Return why a fault cannot happen to a kind of request, or None if it can."""
    match fault:
        case Fault.PROXY_AFTER | Fault.RESET_AFTER if not kind.writes:
            return "a read"
        case Fault.TASK_FAILED | Fault.TASK_WARNINGS | Fault.TASK_LOCKED if not kind.starts_task:
            return "no task" if kind.writes else "a read"
        case Fault.TASK_LOCKED if not kind.of_a_container:
            return "no lock"
        case Fault.CONFLICT if not has_digest:
            return "no digest" if kind.writes else "a read"
        case Fault.LOCKED if not (kind.writes and kind.of_a_container):
            return "no lock" if kind.writes else "a read"
    return None


@dataclass(frozen=True)
class Case:
    """A fault at the first or second request of a kind that a command sends."""

    life: str
    kind: Kind
    fault: Fault
    nth: int

    def __str__(self) -> str:
        return f"{self.life}: {self.fault} at {self.kind}, number {self.nth}"


def cases_of(life: str, sent: Iterable[Sent]) -> Iterator[tuple[Case, str | None]]:
    """Yield every case of a command from the requests that it sends, with the reason if it is not meaningful."""
    counts: dict[Kind, int] = {}
    digests: set[Kind] = set()
    for each in sent:
        kind = Kind.of(each)
        counts[kind] = counts.get(kind, 0) + 1
        if each.writes and any(key.endswith("digest") for key in each.params):
            digests.add(kind)
    for kind, count in sorted(counts.items()):
        for fault in Fault:
            why = unfit(fault, kind, has_digest=kind in digests)
            for nth in (1, 2):
                yield Case(life, kind, fault, nth), why or ("once" if nth > count else None)


class FaultyNode(Node):
    """A node on which one fault happens at one request."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._case: Case | None = None
        self._seen = 0
        self._down = False
        self.deadline: float | None = None  # seconds that the client waits for the current answer
        self.met = False  # whether the fault has happened

    def arm(self, case: Case) -> None:
        self._case, self._seen, self.met = case, 0, False

    def end_fault(self) -> None:
        """The fault is gone: the network works, and the node is up again."""
        self._case, self._down = None, False
        self.faults.clear()
        self.world.tasks.wait_for_all(20)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._down:
            raise httpx.ConnectError("[Errno 111] Connection refused", request=request)
        self.deadline = request.extensions["timeout"]["read"]
        case, path = self._case, request.url.path.removeprefix("/api2/json")
        if case is None or not self._is_due(case, request, path):
            return self._answered(request)
        self.met = True
        for rule in _rules(case.fault, case.kind, path):
            self.fault(*rule, method=request.method, path=path)
        if case.fault is Fault.CONFLICT:
            self._edit(path)
        if case.fault.crashes:
            return self._crash(request)
        return self._answered(request)

    def _answered(self, request: httpx.Request) -> httpx.Response:
        """Answer when all tasks have ended, so that a command always sends the same requests."""
        try:
            return super().handle_request(request)
        finally:
            self.world.tasks.wait_for_all(20)

    def _is_due(self, case: Case, request: httpx.Request, path: str) -> bool:
        params = {**dict(request.url.params), **dict(httpx.QueryParams(request.read().decode()))}
        if Kind.of(Sent(request.method, path, params)) == case.kind:
            self._seen += 1
            return self._seen == case.nth and not self.met
        return False

    def _edit(self, path: str) -> None:
        """Somebody else writes into the notes of the container that the request is about."""
        vmid = int(_NUMBER.search(path)[1])  # type: ignore[index]
        self.root("pct", "set", vmid, "--description", f"{NOTE}\n{self.config(vmid).get('description', '')}")

    def _crash(self, request: httpx.Request) -> httpx.Response:
        """The node goes down while it works on the request: tasks end without cleaning up, and machines stop."""
        try:
            return self._answered(request)
        finally:
            self._down = self._case is not None and self._case.fault is Fault.CRASH_DOWN
            self.crash()
            start_on_boot(self.world)
            self.world.tasks.wait_for_all(20)


def _rules(fault: Fault, kind: Kind, path: str) -> Iterator[tuple[str, str]]:
    """Yield the faults of the sandbox that make up one of ours."""
    number = _NUMBER.search(path)
    lock = f"can't lock file '/run/lock/lxc/pve-config-{number[1] if number else 100}.lock' - got timeout"
    match fault:
        case Fault.ERROR:
            yield "answer", "500:cluster not ready - no quorum?"
        case Fault.BUSY:
            yield "answer", "503"
        case Fault.PROXY_BEFORE:
            yield "answer", "596"
        case Fault.PROXY_AFTER:
            yield "lose", "596"
        case Fault.RESET_BEFORE:
            yield "reset", ""
        case Fault.RESET_AFTER:
            yield "lose", ""
        case Fault.STALL:
            yield "stall", "3600000"
        case Fault.TASK_FAILED:
            yield "fail-task", "the disk is on fire"
        case Fault.TASK_WARNINGS:
            yield "warn-task", "the disk is warm"
        case Fault.TASK_LOCKED:
            yield "fail-task", lock
        case Fault.LOCKED:
            yield "answer", f"500:{lock}"
        case Fault.CRASH_BACK | Fault.CRASH_DOWN:
            yield ("crash-task", "") if kind.starts_task else ("reset", "")
        case Fault.CONFLICT:
            return


class ImpatientSleep:
    """Replaces ``asyncio`` for the sandbox's faults: a wait that no client waits for ends at once, as a timeout."""

    def __init__(self, asyncio: Any, deadline: Callable[[], float | None]) -> None:
        self._asyncio = asyncio
        self._deadline = deadline

    def __getattr__(self, name: str) -> Any:
        return getattr(self._asyncio, name)

    async def sleep(self, seconds: float) -> None:
        deadline = self._deadline()
        assert deadline is not None, "the client would wait for this answer forever"
        if seconds < deadline:
            await self._asyncio.sleep(seconds)
        else:
            raise TimeoutError
