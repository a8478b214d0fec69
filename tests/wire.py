"""The API of the sandbox without a server, a socket or an event loop: a request is answered by a call."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any, TypeVar

import httpx
from starlette.requests import Request
from starlette.responses import Response

from pvebox.server.http import HttpApi

T = TypeVar("T")


async def respond(api: HttpApi, request: httpx.Request, body: bytes) -> Response:
    """Answer a request as the server would. ``body`` is its content."""
    url = request.url
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": request.method,
        "scheme": url.scheme,
        "server": (url.host, url.port),
        "path": url.path,
        "raw_path": url.raw_path.partition(b"?")[0],
        "query_string": url.query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return await api.handle(Request(scope, receive))


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work that waits for nothing. An event loop of its own would take longer than a request."""
    return contextvars.copy_context().run(_finish, work)


def _finish(work: Coroutine[Any, Any, T]) -> T:
    try:
        while (waits_for := work.send(None)) is None:  # asyncio.sleep(0)
            pass
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise AssertionError(f"it waits for {waits_for}")


def in_time(work: Coroutine[Any, Any, T], seconds: float | None) -> T:
    """Return the result of work that may wait, or raise TimeoutError."""
    return asyncio.run(asyncio.wait_for(work, seconds))
