"""Make one HTTP request or connection to an agent. Runs on the machine and in containers, with Python 3.7 or newer."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

MOST = 2 << 20  # the largest answer that is read, in bytes
SECONDS = 5  # for the health command of a container


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect as the answer. An agent could send root, with its key, to an address that it must not reach."""

    def redirect_request(self, *_: Any) -> None:
        return None


class AnothersPort(OSError):
    """A program of another account than the agent's has the other end of a connection."""


class ToTheAgent(http.client.HTTPConnection):
    """A connection that sends nothing to a program of this machine whose account is not one of the owners."""

    owners: Sequence[int] = ()

    def connect(self) -> None:
        super().connect()
        expect_owner(self.sock, self.owners)


class ToTheAgentOnly(urllib.request.HTTPHandler):
    """Opens URLs by such connections."""

    def __init__(self, owners: Sequence[int]) -> None:
        super().__init__()
        self.owners = owners

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(self.connection, req)

    def connection(self, host: str, **options: Any) -> ToTheAgent:
        made = ToTheAgent(host, **options)
        made.owners = self.owners
        return made


def request(
    question: dict[str, Any], token: str | None = None, *, proxies: bool = False, owners: Sequence[int] = ()
) -> dict[str, Any]:
    """Return ``status`` and ``body`` of the answer, or ``refused`` with the reason why there is none.

    Only a URL that is not on loopback is requested through a proxy, and only if ``proxies`` allows it. With ``owners``,
    nothing is sent to a server of this machine that runs as another account, root excepted.
    """
    url = question["url"]
    headers = {"Content-Type": "application/json", **question["headers"]}
    if token is not None:
        headers["Authorization"] = "Bearer " + token
    body = None if question["body"] is None else json.dumps(question["body"]).encode()
    asked = urllib.request.Request(url, body, headers, method=question["method"])
    direct = not proxies or urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    handlers = [*([urllib.request.ProxyHandler({})] if direct else []), *([ToTheAgentOnly(owners)] if owners else [])]
    opener = urllib.request.build_opener(NoRedirects, *handlers)
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


def expect_owner(connection: socket.socket, owners: Sequence[int]) -> None:
    """Raise ``AnothersPort`` if a program of another account has the other end of a connection, or will accept it.

    An end that this machine does not have is on another machine, or where root's rules lead the connection. Root is
    trusted: it may listen for an agent, and it reads the keys anyway.
    """
    here, there = ends(connection.getsockname()), ends(connection.getpeername())
    listeners = [(local[0], uid) for local, _, state, uid, _ in table() if state == "0A" and local[1] == there[1]]
    # The kernel prefers a program that listens on this address to one that listens on all.
    listening = {uid for local, uid in listeners if local == there[0]}
    listening = listening or {uid for local, uid in listeners if not any(local)}
    taken = [(uid, inode) for local, remote, _, uid, inode in table() if (local, remote) == (there, here)]
    for uid, inode in taken:
        # Before a program has accepted it, the end has no inode, and belongs to whoever listens.
        strangers = ({uid} if inode else listening or {uid}) - {*owners, 0}
        if strangers:
            of = ", ".join(map(str, sorted(strangers)))
            raise AnothersPort(f"user {of} of the machine answers there, who is not the agent's; the key was not sent")


def table() -> Any:
    """Yield the ends, the state, the uid and the inode of each TCP socket in this network."""
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        try:
            with open("/proc/net/" + name) as file:
                rows = file.read().split("\n")[1:]
        except OSError:
            continue  # a machine without IPv6
        for words in (row.split() for row in rows if row):
            yield end_of(words[1], family), end_of(words[2], family), words[3], int(words[7]), int(words[9])


def end_of(text: str, family: int) -> tuple[bytes, int]:
    address, _, port = text.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    return plain(struct.pack(f"={len(words)}I", *words)), int(port, 16)


def ends(name: Any) -> tuple[bytes, int]:
    family = socket.AF_INET6 if ":" in name[0] else socket.AF_INET
    return plain(socket.inet_pton(family, name[0].partition("%")[0])), int(name[1])


def plain(address: bytes) -> bytes:
    """Return an IPv4 address that is written as IPv6 in its own form."""
    return address[12:] if address[:12] == bytes(10) + b"\xff\xff" else address


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
