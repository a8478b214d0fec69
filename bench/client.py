"""A plain client of a sandbox's API, and waiting for a container's ssh server."""

from __future__ import annotations

import json
import socket
import ssl
import time
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

Json = Any


class Client:
    """A persistent connection to a sandbox."""

    def __init__(self, ready: dict[str, Json], name: str = "paddock@pve!deploy") -> None:
        where = urlsplit(ready["url"])
        trust = ssl.create_default_context(cafile=ready["ca"])
        self._connection = HTTPSConnection(str(where.hostname), where.port, context=trust)
        secret = ready["tokens"][name]
        self._headers = {"Authorization": f"PVEAPIToken={name}={secret}"}
        self._last = time.monotonic()

    def ask(self, method: str, path: str, **params: Json) -> Json:
        """Send a request and return the data of the answer."""
        headers = {**self._headers, "Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode(params) if params else None
        # The server closes a connection after five idle seconds.
        if time.monotonic() - self._last > 4:
            self._connection.close()
        self._connection.request(method, f"/api2/json{path}", body, headers if body else self._headers)
        answer = self._connection.getresponse()
        said = answer.read()
        self._last = time.monotonic()
        if answer.status != 200:
            raise SystemExit(f"{method} {path}: {answer.status} {answer.reason}")
        return json.loads(said)["data"]

    def task(self, method: str, path: str, **params: Json) -> float:
        """Send a request that starts a task, and return the seconds until the task has succeeded."""
        began = time.perf_counter()
        upid = self.ask(method, path, **params)
        while (status := self.ask("GET", f"/nodes/pve/tasks/{upid}/status"))["status"] != "stopped":
            time.sleep(0.01)
        if status["exitstatus"] != "OK":
            raise SystemExit(f"{upid}: {status['exitstatus']}")
        return time.perf_counter() - began

    def seal(self, vmid: int) -> None:
        """Convert a container to a template, and wait until that is done."""
        self.ask("POST", f"/nodes/pve/lxc/{vmid}/template")
        while self.ask("GET", f"/nodes/pve/lxc/{vmid}/config").get("template") != 1:
            time.sleep(0.02)


def to_banner(client: Client, vmid: int) -> str:
    """Wait until a container's ssh server sends its banner, and return the container's address."""
    while True:
        for interface in client.ask("GET", f"/nodes/pve/lxc/{vmid}/interfaces") or ():
            if interface["name"] != "eth0" or "inet" not in interface:
                continue
            address = str(interface["inet"].split("/")[0])
            try:
                with socket.create_connection((address, 22), 1) as link:
                    if link.recv(4) == b"SSH-":
                        return address
            except OSError:
                continue
        time.sleep(0.02)
