"""The HTTP layer: passes requests to the API and sends the answers with Proxmox's reason phrases."""

from __future__ import annotations

import asyncio
import json
import re
import traceback
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

import h11
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from pvebox import methods
from pvebox.access import tickets
from pvebox.api.errors import (
    INTERNAL,
    ApiError,
    CredentialsError,
    LoginError,
    NoSuchMethodError,
    OperationError,
    ParameterError,
    SandboxError,
    UnreachableError,
)
from pvebox.api.routes import METHODS, Reply, Table, api
from pvebox.cluster.cluster import Cluster
from pvebox.methods.storage.uploads import UPLOADED

_REASON: Final = b"x-pvebox-reason"
# A response with this header is not sent; the server aborts the connection instead.
ABORT: Final = "x-pvebox-abort"
_BODY_LIMIT: Final = 512 * 1024
PREFIX: Final = "/api2/json"
_UPLOAD_LIMIT: Final = 1 << 30
_UPLOAD: Final = re.compile(r"/nodes/[^/]+/storage/[^/]+/upload")
_DISPOSITION: Final = re.compile(rb'form-data;\s*name="([^"]*)"(?:;\s*filename="([^"]*)")?', re.IGNORECASE)
# Stands for a token in a request whose credentials are not checked. It has no privileges.
_ANY_TOKEN: Final = "!"  # noqa: S105

assert methods, "importing the endpoints fills the table"  # noqa: S101


class _ReasonConnection(h11.Connection):
    """An HTTP connection that takes the reason phrase from a header, because ASGI cannot carry it."""

    cut: Callable[[], None]

    def send(self, event: h11.Event) -> bytes | None:  # type: ignore[override]
        if isinstance(event, h11.Response):
            if any(name == ABORT.encode() for name, _ in event.headers):
                self.cut()
            headers = [(name, value) for name, value in event.headers if name != _REASON]
            reason = next((value for name, value in event.headers if name == _REASON), event.reason)
            event = h11.Response(status_code=event.status_code, headers=headers, reason=reason)
        return super().send(event)


class ReasonProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with Proxmox's reason phrases."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        connection = _ReasonConnection(h11.SERVER, self.config.h11_max_incomplete_event_size or 65536)
        connection.cut = self._cut
        self.conn = connection

    def _cut(self) -> None:
        self.transport.abort()


def answer(status: int, reason: str, body: Mapping[str, Any] | None) -> Response:
    """Build a response with a reason phrase, and without a body if `body` is None."""
    content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    response = Response(content, status_code=status, media_type="application/json;charset=UTF-8")
    response.headers["x-pvebox-reason"] = reason.encode("ascii", "replace").decode() or "OK"
    response.headers["server"] = "pve-api-daemon/3.0"
    response.headers["cache-control"] = "max-age=0"
    if status >= 400:
        # Proxmox closes the connection after an error.
        response.headers["connection"] = "close"
    return response


def error_answer(error: ApiError) -> Response:
    """Build the response for an error."""
    if isinstance(error, (CredentialsError, UnreachableError)):
        return answer(error.status, error.reason, None)
    body: dict[str, Any] = {"data": None, "message": error.message}
    if isinstance(error, NoSuchMethodError):
        body["message"] = error.text
    if error.errors:
        body["errors"] = error.errors
    return answer(error.status, error.reason, body)


Interceptor = Callable[[Request, Callable[[], Awaitable[Response]]], Awaitable[Response]]
Controller = Callable[[Request], Awaitable[Response]]
Log = Callable[[Request, Response], None]


async def _no_control(request: Request) -> Response:
    return answer(404, "no such file", None)


async def _no_interceptor(request: Request, go_on: Callable[[], Awaitable[Response]]) -> Response:
    return await go_on()


class HttpApi:
    """Turns HTTP requests into API calls."""

    def __init__(
        self,
        cluster: Cluster,
        table: Table = api,
        *,
        delay_401: float = 3.0,
        in_thread: Callable[..., Awaitable[Any]] = run_in_threadpool,
    ) -> None:
        self.cluster = cluster
        self.table = table
        self.delay_401 = delay_401
        # Runs the blocking work of a request.
        self._in_thread = in_thread
        # Called before every API request; fault injection replaces it.
        self.intercept: Interceptor = _no_interceptor
        # Answers the requests to /control/.
        self.control: Controller = _no_control
        # Called with every API request and its response.
        self.log: Log = lambda request, response: None

    def app(self) -> Starlette:
        """Return the ASGI application."""
        verbs = [*METHODS, "HEAD", "PATCH", "OPTIONS"]
        return Starlette(routes=[Route("/{path:path}", self.handle, methods=verbs)])

    async def handle(self, request: Request) -> Response:
        """Answer a request, also without a server."""
        if request.scope["path"].startswith("/control/"):
            response = await self.control(request)
        else:
            response = await self.intercept(request, lambda: self._respond(request))
            self.log(request, response)
        response.headers["date"] = formatdate(self.cluster.now(), usegmt=True)
        return response

    async def _respond(self, request: Request) -> Response:
        raw = request.scope["path"]
        if request.method not in METHODS:
            return answer(501, f"method '{request.method}' not available", None)
        if not raw.startswith(PREFIX):
            return answer(404, f"no such file '{raw}'", None)
        path = (request.scope.get("raw_path") or raw.encode()).decode("ascii", "replace")
        path = path.split("?", 1)[0].removeprefix(PREFIX) or "/"
        try:
            user = request.state.user = self._authenticate(request, path)
        except CredentialsError as error:
            await asyncio.sleep(self.delay_401)
            return error_answer(error)
        try:
            if request.method == "POST" and _UPLOAD.fullmatch(path):
                params = await self._uploaded(request, user, path)
            else:
                params = await _parameters(request)
            data = await self._in_thread(self.table.perform, self.cluster, user, request.method, path, params)
        except ApiError as error:
            if isinstance(error, LoginError):
                await asyncio.sleep(self.delay_401)
            return error_answer(error)
        except SandboxError as error:
            return error_answer(OperationError(error.message))
        except Exception:  # noqa: BLE001 - a client must never see a Python error
            traceback.print_exc()
            return error_answer(OperationError(INTERNAL))
        if isinstance(data, Reply):
            body = {"data": data.data}
            # Proxmox omits a total of zero.
            if data.total:
                body["total"] = data.total
            return answer(200, "OK", body)
        return answer(200, "OK", {"data": data})

    async def _uploaded(self, request: Request, user: str, path: str) -> dict[str, Any]:
        """Return the fields of a multipart form, and keep its file in `UPLOADED` for the handler.

        Only a user who may upload gets so far: the file is read into memory.
        """
        storage = unquote(path.split("/")[4])
        self.cluster.access.require(user, f"/storage/{storage}", ["Datastore.AllocateTemplate"])
        kind = request.headers.get("content-type", "")
        if not kind.startswith("multipart/form-data"):
            return await _parameters(request)
        size = request.headers.get("content-length", "")
        if not size.isdecimal() or int(size) > _UPLOAD_LIMIT:
            raise NoSuchMethodError("for data too large")
        fields, content = _multipart(kind, await request.body())
        UPLOADED.set(content)
        return fields

    def _authenticate(self, request: Request, path: str) -> str:
        """Return the user or token that a request proves: by a ticket, or else by an API token."""
        access = self.cluster.access
        ticket, authorization = _ticket(request), _authorization(request)
        if self.table.is_open(request.method, path):
            # The credentials are not checked, but a login with the header of a token is refused.
            return _ANY_TOKEN if not ticket and _has_token(authorization) else ""
        if not ticket:
            return access.authenticate(authorization)
        user = tickets.require_holder(access.authkey, ticket)
        if not access.is_enabled(user):
            raise CredentialsError("Authentication failed!")
        if request.method != "GET" and not _UPLOAD.fullmatch(path):
            tickets.require_csrf_token(access.authkey, user, request.headers.get("csrfpreventiontoken"))
        return user


def _authorization(request: Request) -> str | None:
    value = request.headers.get("authorization")
    return unquote(value) if value is not None else None


def _has_token(authorization: str | None) -> bool:
    return re.match(r"PVEAPIToken[= ]", authorization or "") is not None


def _ticket(request: Request) -> str | None:
    """Return the ticket in the cookie, or in the Authorization header."""
    found = re.search(r"(?:^|\s)PVEAuthCookie=([^;]*)", request.headers.get("cookie", ""))
    if found and found[1]:
        return unquote(found[1])
    header = re.match(r"PVEAuthCookie[= ](.*)", request.headers.get("authorization", ""))
    return unquote(header[1]) if header else None


async def _parameters(request: Request) -> dict[str, Any]:
    params: dict[str, Any] = _form(request.url.query)
    body = await request.body()
    if request.headers.get("transfer-encoding", "").lower() == "chunked" and body:
        raise NoSuchMethodError("chunked transfer encoding not supported")
    if not body:
        return params
    if request.method in ("GET", "DELETE"):
        raise NoSuchMethodError(f"Unexpected content for method '{request.method}'")
    if len(body) > _BODY_LIMIT:
        raise NoSuchMethodError("for data too large")
    if "json" in request.headers.get("content-type", ""):
        given = _json(body)
    else:
        given = _form(body.decode("utf-8", "replace"))
    # Parameters in the query override parameters in the body.
    return {**given, **params}


def _form(text: str) -> dict[str, Any]:
    """Decode form data as Proxmox does: a value ends at its first `=`, and a repeated key becomes a list."""
    params: dict[str, Any] = {}
    for pair in re.split("[&;]", text):
        if not pair:
            continue
        key, separator, rest = pair.partition("=")
        value = unquote_plus(rest.partition("=")[0], errors="replace") if separator else None
        key = unquote_plus(key, errors="replace")
        old = params.get(key)
        if old is not None and value is not None:
            params[key] = [*old, value] if isinstance(old, list) else [old, value]
        else:
            params[key] = value
    return {key: value for key, value in params.items() if value is not None}


def _multipart(content_type: str, body: bytes) -> tuple[dict[str, str], bytes | None]:
    """Return the fields of a multipart form, and the content of its file: at most one, in the field `filename`."""
    boundary = re.search(r'boundary="?([^";\s]{1,70})"?', content_type)
    if boundary is None:
        raise NoSuchMethodError("upload failed")
    fields: dict[str, str] = {}
    content: bytes | None = None
    for part in body.split(b"--" + boundary[1].encode())[1:]:
        if part.startswith(b"--"):
            break
        head, separator, value = part.partition(b"\r\n\r\n")
        found = _DISPOSITION.search(head)
        if not separator or found is None:
            raise NoSuchMethodError("upload failed")
        name, value = found[1].decode("utf-8", "replace"), value.removesuffix(b"\r\n")
        if found[2] is None:
            fields[name] = value.decode("utf-8", "replace")
        elif name == "filename" and content is None:
            fields[name], content = found[2].decode("utf-8", "replace"), value
        else:
            raise NoSuchMethodError("upload failed")
    return fields, content


def _json(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except ValueError:
        raise ParameterError({"content": "malformed JSON string"}) from None
    if not isinstance(data, dict):
        raise ParameterError({"content": "not a JSON object"})
    return {key: _as_parameter(value) for key, value in data.items() if value is not None}


def _as_parameter(value: Any) -> Any:
    if isinstance(value, bool):
        return str(int(value))
    return value if isinstance(value, (dict, list)) else str(value)
