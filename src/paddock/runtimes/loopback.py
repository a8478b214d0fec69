"""Make one HTTP request or connection to an agent. Runs on the machine and in containers, with Python 3.7 or newer."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

MOST = 2 << 20  # the largest answer that is read, in bytes
SECONDS = 5  # for the health command of a container


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect as the answer. An agent could send root, with its key, to an address that it must not reach."""

    def redirect_request(self, *_: Any) -> None:
        return None


def request(question: dict[str, Any], token: str | None = None, *, proxies: bool = False) -> dict[str, Any]:
    """Return ``status`` and ``body`` of the answer, or ``refused`` with the reason why there is none.

    Only a URL that is not on loopback is requested through a proxy, and only if ``proxies`` allows it.
    """
    url = question["url"]
    headers = {"Content-Type": "application/json", **question["headers"]}
    if token is not None:
        headers["Authorization"] = "Bearer " + token
    body = None if question["body"] is None else json.dumps(question["body"]).encode()
    asked = urllib.request.Request(url, body, headers, method=question["method"])
    direct = not proxies or urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    opener = urllib.request.build_opener(NoRedirects, *([urllib.request.ProxyHandler({})] if direct else []))
    try:
        with opener.open(asked, timeout=question["seconds"]) as response:
            return _answer(url, response.status, response)
    except urllib.error.HTTPError as error:
        return _answer(url, error.code, error)
    except (OSError, http.client.HTTPException) as error:
        return {"refused": f"{url}: {getattr(error, 'reason', error)}"}


def _answer(url: str, status: int, response: Any) -> dict[str, Any]:
    data = response.read(MOST + 1)
    if len(data) > MOST:
        return {"refused": f"{url}: the answer is longer than {MOST >> 20} MiB and was cut"}
    return {"status": status, "body": decoded(data)}


def decoded(data: bytes) -> object:
    """Return the JSON value of the bytes, or their text if they are not JSON."""
    text = data.decode(errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def connect(port: int, seconds: float) -> dict[str, Any]:
    """Connect to a port on loopback and return it as ``content``, or ``refused`` with the reason."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=seconds).close()
    except OSError:
        return {"refused": f"port {port} does not accept connections"}
    return {"content": port}


def main() -> None:
    """Be the health command of a container: exit with 0 if URL answers with STATUS, or PORT accepts connections."""
    target, *status = sys.argv[1:]
    if status:
        question: dict[str, Any] = {"method": "GET", "url": target, "headers": {}, "body": None, "seconds": SECONDS}
        reply = request(question)
        healthy = reply.get("status") == int(status[0])
        found = reply.get("refused") or f"{target} answered {reply['status']}"
    else:
        reply = connect(int(target), SECONDS)
        healthy, found = "refused" not in reply, reply.get("refused")
    sys.exit(0 if healthy else found)


if __name__ == "__main__":
    main()
