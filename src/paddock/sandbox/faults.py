"""Faults on demand: rules that make chosen requests or tasks go wrong."""

from __future__ import annotations

import asyncio
import fnmatch
import itertools
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from .errors import SandboxError
from .http import ABORT, PREFIX, Face, answer
from .tasks import FATES, Fate


class Kind(StrEnum):
    """What can go wrong."""

    ANSWER = "answer"
    RESET = "reset"
    STALL = "stall"
    LOSE = "lose"
    SLOW = "slow"
    FAIL_TASK = "fail-task"
    WARN_TASK = "warn-task"


_REASONS: dict[int, str] = {
    401: "Authentication failed!",
    500: "Internal Server Error",
    503: "Service Unavailable",
    595: "Connection refused",
    596: "Connection timed out",
}


@dataclass(frozen=True)
class Rule:
    """One fault: which requests it meets, how often, and what happens to them.

    A path is a pattern over the API's paths, with * for anything. Tasks are met by the request that
    begins them. A count of 0 means every time.
    """

    kind: Kind
    value: str = ""
    method: str = "*"
    path: str = "*"
    count: int = 1
    id: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        """A rule from its JSON form, or a sentence about what is wrong with it."""
        known = {"kind", "value", "method", "path", "count"}
        unknown = set(data) - known
        if unknown:
            raise SandboxError(f"A fault has no {sorted(unknown)[0]!r}.", hint=f"It has {', '.join(sorted(known))}.")
        try:
            kind = Kind(str(data["kind"]))
        except (KeyError, ValueError):
            raise SandboxError(
                f"There is no fault of kind {data.get('kind')!r}.", hint=f"There are {', '.join(Kind)}."
            ) from None
        value = str(data.get("value", ""))
        if kind is Kind.ANSWER and not value.partition(":")[0].isdecimal():
            raise SandboxError("An answer needs a status.", hint="For example answer 500, or 500:some words.")
        if kind in (Kind.SLOW, Kind.STALL) and not value.isdecimal():
            raise SandboxError(f"{kind} needs milliseconds.", hint=f"For example {kind} 2000.")
        method, path = str(data.get("method", "*")), str(data.get("path", "*"))
        return cls(kind, value, method, path, int(data.get("count", 1)))

    def meets(self, method: str, path: str) -> bool:
        """Whether a request is one of those meant."""
        return self.method in ("*", method) and fnmatch.fnmatchcase(path, self.path)


class Faults:
    """The rules in force, used up one by one."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._left: dict[int, int] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        # While the node is down, nobody answers.
        self.down_until = 0.0

    def add(self, rule: Rule) -> Rule:
        """Put a rule in force."""
        with self._lock:
            numbered = Rule(**{**asdict(rule), "kind": rule.kind, "id": next(self._ids)})
            self._rules[numbered.id] = numbered
            self._left[numbered.id] = numbered.count
            return numbered

    def listing(self) -> list[dict[str, Any]]:
        """The rules in force, with how often each still applies; 0 is always."""
        with self._lock:
            return [{**asdict(rule), "left": self._left[rule.id]} for rule in self._rules.values()]

    def clear(self, rule_id: int | None = None) -> None:
        """Take one rule, or all, out of force."""
        with self._lock:
            for known in list(self._rules) if rule_id is None else [rule_id]:
                self._rules.pop(known, None)
                self._left.pop(known, None)

    def take(self, method: str, path: str) -> list[Rule]:
        """The rules that meet a request, each counted as used."""
        with self._lock:
            met = [rule for rule in self._rules.values() if rule.meets(method, path)]
            for rule in met:
                if rule.count:
                    self._left[rule.id] -= 1
                    if self._left[rule.id] <= 0:
                        del self._rules[rule.id], self._left[rule.id]
            return met


def install(face: Face, faults: Faults) -> None:
    """Let rules play with a server's requests and the tasks they begin."""

    async def intercept(request: Request, go_on: Callable[[], Awaitable[Response]]) -> Response:
        path = request.scope["path"].removeprefix(PREFIX)
        if faults.down_until > asyncio.get_running_loop().time():
            return _aborted()
        met = faults.take(request.method, path)
        for rule in met:
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
                case Kind.LOSE | Kind.FAIL_TASK | Kind.WARN_TASK:
                    continue
        FATES.set(tuple(_fate(rule) for rule in met if rule.kind in (Kind.FAIL_TASK, Kind.WARN_TASK)))
        response = await go_on()
        return _aborted() if any(rule.kind is Kind.LOSE for rule in met) else response

    face.intercept = intercept


def _fate(rule: Rule) -> Fate:
    if rule.kind is Kind.FAIL_TASK:
        return Fate(fails=True, words=rule.value or "unexpected status")
    return Fate(fails=False, words=rule.value or "something is not as it should be")


def _aborted() -> Response:
    return Response(headers={ABORT: "1"})


def _canned(value: str) -> Response:
    status, _, words = value.partition(":")
    reason = words or _REASONS.get(int(status), "Error")
    # What the proxy in front answers itself has no body.
    body = None if int(status) in (401, 595, 596) else {"data": None, "message": f"{reason}\n"}
    return answer(int(status), reason, body)
