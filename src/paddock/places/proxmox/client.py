"""The HTTP gate to Proxmox: authentication, TLS, retries of reads, tasks, and errors as types."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from paddock.errors import BadInput, PaddockError
from paddock.secret import Secret, mask

_READ_TRIES: Final = 4
# pveproxy's own way to say that the daemon behind it did not answer; a read may be asked again.
_NOT_NOW: Final = frozenset({502, 503, 504, 595, 596})

Params = Mapping[str, str | int]


class ApiError(PaddockError):
    """Proxmox said no; carries its message and what it found wrong with each parameter."""

    def __init__(self, what: str, status: int, message: str, errors: Mapping[str, str], hint: str | None) -> None:
        details = "".join(f"\n  {key}: {text.strip()}" for key, text in errors.items())
        super().__init__(f"Proxmox answered {status} to {what}: {message.strip()}{details}", hint=hint)
        self.status = status
        self.reason = message.strip()
        self.errors = errors

    @property
    def container_missing(self) -> bool:
        """Proxmox has no 404 for a container: it misses its configuration file."""
        return self.status == 500 and self.reason.endswith("does not exist")


class TaskFailed(PaddockError):
    """A task of the node ended badly; carries the end of its log."""


@dataclass(frozen=True)
class TaskEnd:
    """A task that did its work; warnings are worth showing."""

    warnings: tuple[str, ...] = ()


class Client:
    """One node's API. Reads are tried again; writes are sent once."""

    def __init__(self, url: str, node: str, token: Secret, ca: Path | None) -> None:
        try:
            context = ssl.create_default_context(cafile=str(ca) if ca else None)
        except OSError as error:
            raise BadInput(f"cannot use the CA certificate {ca}: {error.strerror or error}") from None
        self._http = httpx.Client(
            base_url=f"{url.rstrip('/')}/api2/json",
            headers={"Authorization": f"PVEAPIToken={token.reveal()}"},
            verify=context,
            timeout=httpx.Timeout(60, connect=10),
            trust_env=False,  # a node is on the person's own network; a proxy would see the token
        )
        self._url = url
        self.node = node

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def get(self, path: str) -> Any:
        """Read a path; tried again while the node cannot answer."""
        for attempt in range(_READ_TRIES):
            last = attempt == _READ_TRIES - 1
            try:
                response = self._http.get(path)
            except httpx.TransportError as error:
                if last or _is_certificate(error):
                    raise self._unreachable(error) from None
            else:
                if response.status_code not in _NOT_NOW or last:
                    return self._data("GET", path, response)
            time.sleep(0.2 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def send(self, method: str, path: str, params: Params | None = None) -> Any:
        """Make a writing call, once: what became of a lost answer is for the next observation to see."""
        try:
            # Proxmox refuses a body on DELETE; an empty form is no body.
            response = self._http.request(method, path, data=dict(params) if params else None)
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        return self._data(method, path, response)

    def task(self, method: str, path: str, params: Params | None = None, *, deadline: float = 300) -> TaskEnd:
        """Make a call that answers with a task and wait until the task has ended well."""
        upid = self.send(method, path, params)
        return self._wait(str(upid), deadline)

    def _wait(self, upid: str, deadline: float) -> TaskEnd:
        task = f"/nodes/{self.node}/tasks/{quote(upid, safe=':@!')}"
        kind = upid.split(":")[5]
        end = time.monotonic() + deadline
        pause = 0.05
        while True:
            status = self.get(f"{task}/status")
            if status["status"] == "stopped":
                break
            if time.monotonic() > end:
                raise TaskFailed(
                    f"the task {kind} still runs after {deadline:.0f} s",
                    hint="it goes on without Paddock; run the same command again to continue from where it is",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)
        outcome = str(status["exitstatus"])
        if outcome == "OK":
            return TaskEnd()
        log = [str(line["t"]) for line in self.get(f"{task}/log?limit=0")]
        if outcome.startswith("WARNINGS"):
            return TaskEnd(tuple(line for line in log if line.startswith("WARN")))
        tail = "\n".join(f"  {line}" for line in log[-8:])
        raise TaskFailed(mask(f"the task {kind} failed: {outcome}\n{tail}"))

    def _data(self, method: str, path: str, response: httpx.Response) -> Any:
        if response.status_code == 200:
            return response.json()["data"]
        if response.status_code == 401:
            raise ApiError(
                f"{method} {path}", 401, response.reason_phrase, {}, hint="check the token: user@realm!name=uuid"
            )
        try:
            body = response.json()
        except ValueError:
            body = {}
        hint = "`paddock` needs that privilege for this token" if response.status_code == 403 else None
        raise ApiError(
            f"{method} {path}",
            response.status_code,
            mask(str(body.get("message") or response.reason_phrase)),
            body.get("errors") or {},
            hint,
        )

    def _unreachable(self, error: httpx.TransportError) -> PaddockError:
        if _is_certificate(error):
            return PaddockError(
                f"the certificate of {self._url} is not trusted: {error}",
                hint="name the node's CA in the file: ca: ./pve-root-ca.pem (/etc/pve/pve-root-ca.pem on the node)",
            )
        return PaddockError(f"{self._url} does not answer: {error}", hint="is the node up, and the url right?")


def _is_certificate(error: httpx.TransportError) -> bool:
    return "CERTIFICATE_VERIFY_FAILED" in str(error)
