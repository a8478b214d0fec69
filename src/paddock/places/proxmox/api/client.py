"""The HTTP client for the Proxmox API: authentication, retries of reads, tasks, typed errors."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote

import httpx

from paddock.base import bounded, clock
from paddock.base.clock import Wait
from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen
from paddock.base.secret import Secret, mask
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.errors import (
    AFTERWARDS,
    CONTINUE,
    NO_QUORUM,
    NO_QUORUM_HINT,
    AnswerLost,
    api_error,
    says_no_quorum,
)

_READ_TRIES: Final = 4
# pveproxy refuses connections for two or three seconds while it restarts: after an update, or with a new certificate.
_PATIENCE_AFTER_A_CHANGE: Final = 30.0  # a run that has changed something must not stop halfway
_LARGEST: Final = 32 << 20  # bytes of a response; a cluster with thousands of guests stays far below
# pveproxy's status codes for a daemon that did not answer; it may still carry out the request.
_NO_BACKEND: Final = frozenset({502, 503, 504, 595, 596})

_CUT_OFF: Final = "unexpected status"  # Proxmox's exit status of a task that left no end in its log

Params = Mapping[str, str | int]


class TaskFailed(PaddockError):
    """A task of the node failed; the message has the end of its log."""

    outcome = ""  # Proxmox's last line
    log: Sequence[str] = ()


class TaskCutOff(TaskFailed):
    """A task ended without a result: its process was killed, or the node went down."""


class NotReached(PaddockError):
    """The node does not answer."""


@frozen
class TaskEnd:
    """The end of a successful task, with its warnings."""

    warnings: tuple[str, ...] = ()


class Client:
    """The API of one node. Reads are retried; writes are sent once and raise AnswerLost without a response.

    A refused connection is retried for both, because nothing was sent.
    """

    def __init__(self, url: str, node: str, token: Secret, trust: ssl.SSLContext) -> None:
        value = token.reveal()
        if not value.isascii():
            raise BadInput("the API token contains non-ASCII characters", hint="user@realm!name=uuid")
        self._http = httpx.Client(
            base_url=f"{url.rstrip('/')}/api2/json",
            # Not compressed, because a small response could expand to any size.
            headers={"Authorization": f"PVEAPIToken={value}", "Accept-Encoding": "identity"},
            verify=trust,
            timeout=httpx.Timeout(60, connect=10),
            trust_env=False,  # a proxy would see the token, and the node is on the user's own network
        )
        self.url = url
        self._trust = trust
        self.user = token.reveal().partition("=")[0]
        self.node = node
        self._changed = False  # whether a writing request was answered
        self._dated: tuple[datetime, float] | None = None  # time on the node, and our monotonic clock at that moment

    def now(self) -> datetime:
        """Return the time on the node, which all runs share; this computer's time if the node never sent its own."""
        if self._dated is None:
            return clock.now()
        there, at = self._dated
        return there + timedelta(seconds=clock.monotonic() - at)

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, params: Params | None = None) -> Any:
        """Read a path; retry while the node does not answer."""
        for attempt in range(_READ_TRIES):
            last = attempt == _READ_TRIES - 1
            try:
                response = self._answer("GET", path, params=params)
            except httpx.TransportError as error:
                if last or tls.is_refused(error) or tls.rejected(self.url, self._trust, error):
                    raise self._unreachable(error) from None
            else:
                if response.status_code not in _NO_BACKEND or last:
                    return self._data("GET", path, response)
            clock.sleep(0.2 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def send(self, method: str, path: str, params: Params | None = None) -> Any:
        """Send a writing request once. If its response is lost, the next observation shows the outcome."""
        what = f"{method} {path}"
        try:
            # Proxmox refuses a body on DELETE: its parameters go into the query.
            where = "params" if method == "DELETE" else "data"
            response = self._answer(method, path, **{where: dict(params) if params else None})
        except httpx.ConnectError as error:
            raise self._unreachable(error) from None
        except httpx.TransportError as error:
            raise AnswerLost(f"no answer came back to {what}: {error}") from None
        if response.status_code in _NO_BACKEND:
            raise AnswerLost(f"Proxmox answered {response.status_code} to {what}: {response.reason_phrase}")
        self._changed = self._changed or response.status_code == 200
        return self._data(method, path, response)

    def task(self, method: str, path: str, params: Params | None = None, *, deadline: float = 600) -> TaskEnd:
        """Send a request that starts a task, and wait until the task has succeeded."""
        return self.wait(str(self.send(method, path, params)), deadline)

    def wait(self, upid: str, deadline: float) -> TaskEnd:
        """Wait for a task; raise TaskFailed with the end of its log if it fails."""
        task = f"/nodes/{self.node}/tasks/{quote(upid, safe=':@!')}"
        name = upid.split(":")[5] if upid.count(":") > 5 else upid
        wait = Wait(deadline)
        while (status := self.get(f"{task}/status"))["status"] != "stopped":
            if wait.is_over:
                raise TaskFailed(
                    f"the task {name} is still running after {deadline:.0f} s",
                    hint="the task continues on the node; run the same command again to continue",
                )
            wait.pause()
        outcome = str(status["exitstatus"])
        if outcome == "OK":
            return TaskEnd()
        log = self.task_log(upid)
        if outcome.startswith("WARNINGS"):
            return TaskEnd(tuple(line for line in log if line.startswith("WARN")))
        tail = "\n".join(f"  {line}" for line in log[-8:])
        message = mask(f"the task {name} failed: {outcome}\n{tail}")
        if says_no_quorum("\n".join((outcome, *log))):
            raise TaskFailed(f"{NO_QUORUM}: {message}", hint=NO_QUORUM_HINT)
        if outcome == _CUT_OFF:
            raise TaskCutOff(message, hint=f"the node may have gone down during the task; {CONTINUE}")
        failed = TaskFailed(message, hint=f"the log above is Proxmox's own; {AFTERWARDS}")
        failed.outcome, failed.log = mask(outcome), [mask(line) for line in log]
        raise failed

    def task_log(self, upid: str) -> list[str]:
        """Return all lines of a task's log."""
        path = f"/nodes/{self.node}/tasks/{quote(upid, safe=':@!')}/log"
        return [str(line["t"]) for line in self.get(path, {"limit": 0})]

    def _answer(self, method: str, path: str, **what: Any) -> httpx.Response:
        """Send a request and read the response. Connect again while the node refuses connections."""
        wait = Wait(_PATIENCE_AFTER_A_CHANGE if self._changed else tls.PATIENCE)
        while True:
            try:
                return self._response(method, path, **what)
            except httpx.ConnectError as error:
                if wait.is_over or not tls.is_refused(error):
                    raise
            wait.pause()

    def _response(self, method: str, path: str, **what: Any) -> httpx.Response:
        """Send a request and read the response, up to a size limit."""
        with self._http.stream(method, path, **what) as response:
            if "Content-Encoding" in response.headers:
                raise PaddockError(f"{self.url} compresses its responses unasked: it is not a Proxmox node")
            body = bytearray()
            for part in response.iter_bytes():
                body += part
                if len(body) > _LARGEST:
                    raise PaddockError(f"the answer of {self.url} to {method} {path} is over {_LARGEST >> 20} MiB")
        self._set_clock(response.headers.get("Date"))
        return httpx.Response(response.status_code, content=bytes(body), extensions=response.extensions)

    def _set_clock(self, date: str | None) -> None:
        """Take over the node's time from a response; it has a resolution of one second."""
        try:
            there = parsedate_to_datetime(date) if date else None
        except ValueError:
            return
        if there is not None:
            self._dated = there if there.tzinfo else there.replace(tzinfo=UTC), clock.monotonic()

    def _data(self, method: str, path: str, response: httpx.Response) -> Any:
        try:
            body = bounded.parsed(response.content)
        except ValueError:
            body = {}
        if not isinstance(body, dict):
            body = {}
        if response.status_code == 200:
            if "data" not in body:
                raise PaddockError(
                    f"{self.url} is not the API of a Proxmox node", hint="the port of the API is usually 8006"
                )
            return body["data"]
        reason = mask(str(body.get("message") or response.reason_phrase))
        raise api_error(f"{method} {path}", response.status_code, reason, body.get("errors") or {})

    def _unreachable(self, error: httpx.TransportError) -> PaddockError:
        if rejected := tls.rejected(self.url, self._trust, error):
            return rejected
        return NotReached(
            f"{self.url} does not answer: {error}", hint="check that the node is up and that the url is right"
        )
