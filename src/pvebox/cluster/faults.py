"""Fault injection: rules that make chosen requests or tasks fail."""

from __future__ import annotations

import asyncio
import fnmatch
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pvebox.api.errors import SandboxError
from pvebox.cluster.tasks import INJECTED_OUTCOMES, InjectedOutcome, TaskFault
from pvebox.server.http import ABORT, PREFIX, HttpApi, answer


class Kind(StrEnum):
    """The kinds of faults."""

    ANSWER = "answer"
    RESET = "reset"
    STALL = "stall"
    LOSE = "lose"
    SLOW = "slow"
    FAIL_TASK = "fail-task"
    WARN_TASK = "warn-task"
    CRASH_TASK = "crash-task"


_REASONS: dict[int, str] = {
    401: "Authentication failed!",
    500: "Internal Server Error",
    503: "Service Unavailable",
    595: "Connection refused",
    596: "Connection timed out",
}


@dataclass(frozen=True)
class Rule:
    """One fault: which requests it matches, how often, and how they fail.

    `path` is a pattern for API paths, in which * matches anything. A fault of a task matches the request that starts
    the task. A count of 0 means every time.
    """

    kind: Kind
    value: str = ""
    method: str = "*"
    path: str = "*"
    count: int = 1
    id: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        """Parse the JSON form of a rule. Raise a SandboxError with a hint if it is invalid."""
        known = {"kind", "value", "method", "path", "count"}
        unknown = set(data) - known
        if unknown:
            raise SandboxError(
                f"A fault has no field {sorted(unknown)[0]!r}.", hint=f"The fields are {', '.join(sorted(known))}."
            )
        try:
            kind = Kind(str(data["kind"]))
        except (KeyError, ValueError):
            raise SandboxError(
                f"There is no fault of kind {data.get('kind')!r}.", hint=f"The kinds are {', '.join(Kind)}."
            ) from None
        value = str(data.get("value", ""))
        if kind is Kind.ANSWER and not value.partition(":")[0].isdecimal():
            raise SandboxError(
                "The fault answer needs an HTTP status.", hint="For example: answer 500, or answer 500:message"
            )
        if kind is Kind.LOSE and value and not value.isdecimal():
            raise SandboxError(
                "The fault lose takes an HTTP status, or nothing.", hint="For example: lose, or lose 596"
            )
        if kind in (Kind.SLOW, Kind.STALL) and not value.isdecimal():
            raise SandboxError(f"The fault {kind} needs a time in milliseconds.", hint=f"For example: {kind} 2000")
        method, path = str(data.get("method", "*")), str(data.get("path", "*"))
        return cls(kind, value, method, path, int(data.get("count", 1)))

    def matches(self, method: str, path: str) -> bool:
        """Return whether the rule applies to a request."""
        return self.method in ("*", method) and fnmatch.fnmatchcase(path, self.path)


class Faults:
    """The active rules. A rule is removed after its last use."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._left: dict[int, int] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        # Until this time of the monotonic clock the node is down: every connection is aborted.
        self.down_until = 0.0

    def add(self, rule: Rule) -> Rule:
        """Activate a rule and return it with its id."""
        with self._lock:
            numbered = replace(rule, id=next(self._ids))
            self._rules[numbered.id] = numbered
            self._left[numbered.id] = numbered.count
            return numbered

    def listing(self) -> list[dict[str, Any]]:
        """Return the active fault rules, each with the number of uses left; 0 means unlimited."""
        with self._lock:
            return [{**asdict(rule), "left": self._left[rule.id]} for rule in self._rules.values()]

    def clear(self, rule_id: int | None = None) -> None:
        """Remove one rule, or all."""
        with self._lock:
            for known in list(self._rules) if rule_id is None else [rule_id]:
                self._rules.pop(known, None)
                self._left.pop(known, None)

    def take(self, method: str, path: str) -> list[Rule]:
        """Return the rules that match a request, and count one use of each."""
        with self._lock:
            matching = [rule for rule in self._rules.values() if rule.matches(method, path)]
            for rule in matching:
                if rule.count:
                    self._left[rule.id] -= 1
                    if self._left[rule.id] <= 0:
                        del self._rules[rule.id], self._left[rule.id]
            return matching


def install(http_api: HttpApi, faults: Faults) -> None:
    """Apply the rules to a server's requests and to the tasks that these start."""

    async def intercept(request: Request, go_on: Callable[[], Awaitable[Response]]) -> Response:
        path = request.scope["path"].removeprefix(PREFIX)
        if faults.down_until > time.monotonic():
            return _aborted()
        rules = faults.take(request.method, path)
        for rule in rules:
            match rule.kind:
                case Kind.SLOW:
                    await asyncio.sleep(int(rule.value) / 1000)
                case Kind.STALL:
                    await asyncio.sleep(int(rule.value) / 1000)
                    return _aborted()
                case Kind.RESET:
                    return _aborted()
                case Kind.ANSWER:
                    return _canned(rule.value)
                case Kind.LOSE | Kind.FAIL_TASK | Kind.WARN_TASK | Kind.CRASH_TASK:
                    continue
        INJECTED_OUTCOMES.set(tuple(outcome for rule in rules if (outcome := _outcome(rule))))
        response = await go_on()
        lost = next((rule for rule in rules if rule.kind is Kind.LOSE), None)
        if lost is None:
            return response
        return _canned(lost.value) if lost.value else _aborted()

    http_api.intercept = intercept


def _outcome(rule: Rule) -> InjectedOutcome | None:
    """Return the effect of a rule on the tasks of a request, or None."""
    match rule.kind:
        case Kind.FAIL_TASK:
            return InjectedOutcome(TaskFault.FAILS, rule.value or "unexpected status")
        case Kind.WARN_TASK:
            return InjectedOutcome(TaskFault.WARNS, rule.value or "injected warning")
        case Kind.CRASH_TASK:
            return InjectedOutcome(TaskFault.CRASHES)
    return None


def _aborted() -> Response:
    return Response(headers={ABORT: "1"})


def _canned(value: str) -> Response:
    status, _, words = value.partition(":")
    reason = words or _REASONS.get(int(status), "Error")
    # Proxmox's proxy sends these answers without a body.
    body = None if int(status) in (401, 595, 596) else {"data": None, "message": f"{reason}\n"}
    return answer(int(status), reason, body)
