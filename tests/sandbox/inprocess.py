"""A memory sandbox inside the test process, without a server."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from pvebox.access.accounts import AclEntry, Token, User
from pvebox.cluster.assembly import memory_cluster
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.faults import Faults, Rule, install
from pvebox.cluster.tasks import Task
from pvebox.server.http import HttpApi

Json = Any
TEMPLATE = "local:vztmpl/debian-12-standard_12.12-1_amd64.tar.zst"


class Api:
    """A client of a sandbox's API, with Paddock's token or another one. The default is a memory sandbox."""

    def __init__(self, directory: Path, nodes: tuple[str, ...] = ("pve",), cluster: Cluster | None = None) -> None:
        self.directory = directory
        self.cluster = cluster or memory_cluster(directory, nodes=nodes)
        self.cluster.configs.lock_timeout = 0.1
        self.faults = Faults()
        self._http_api = HttpApi(self.cluster, delay_401=0)
        install(self._http_api, self.faults)

    def ask(self, method: str, path: str, token: str = "paddock@pve!deploy", /, **params: Json) -> httpx.Response:
        """Send a request and return the response. Its reason phrase is in the header x-pvebox-reason."""
        secret = self.cluster.access.tokens[token].secret
        return self.send(method, path, {"Authorization": f"PVEAPIToken={token}={secret}"}, **params)

    def send(self, method: str, path: str, headers: dict[str, str], /, **params: Json) -> httpx.Response:
        """Send a request with these headers and return the response."""
        content = None
        if params and method in ("GET", "DELETE"):
            path += f"?{urlencode(params)}"
        elif params:
            content = urlencode(params).encode()
            headers = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        return asyncio.run(self._send(method, path, headers, content))

    def post_body(self, path: str, headers: dict[str, str], body: bytes) -> httpx.Response:
        """Send a POST request with a body of any kind and return the response."""
        return asyncio.run(self._send("POST", path, headers, body))

    def data(self, method: str, path: str, /, **params: Json) -> Json:
        """Send a request that must succeed and return the data of the answer."""
        answer = self.ask(method, path, **params)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def reason(self, method: str, path: str, token: str = "paddock@pve!deploy", /, **params: Json) -> str:
        """Send a request and return the reason phrase of the response."""
        return self.ask(method, path, token, **params).headers["x-pvebox-reason"]

    def task(self, method: str, path: str, /, **params: Json) -> Task:
        """Send a request that starts a task, and return the finished task."""
        return self.cluster.tasks.wait(self.data(method, path, **params), 10)

    def create(self, vmid: int, node: str = "pve", **params: Json) -> Task:
        """Create a container and return the finished task."""
        given = {
            "vmid": vmid,
            "ostemplate": TEMPLATE,
            "rootfs": "local-lvm:2",
            "features": "nesting=1",
            **params,
        }
        return self.task("POST", f"/nodes/{node}/lxc", **given)

    def token_with(self, **rights: tuple[str, ...]) -> str:
        """Add a token that has these privileges on these paths. In the names of the paths, `_` stands for `/`."""
        access = self.cluster.access
        access.users["few@pve"] = User()
        access.tokens["few@pve!few"] = Token(str(uuid.uuid4()), privsep=False)
        for name, privileges in rights.items():
            access.roles[f"Few-{name}"] = frozenset(privileges)
            access.acl.append(AclEntry("/" + name.replace("_", "/"), "few@pve", f"Few-{name}", propagate=True))
        return "few@pve!few"

    def settle(self) -> None:
        """Wait until no task runs."""
        while running := self.cluster.tasks.running():
            running[0].ended.wait(10)

    def rule(self, kind: str, value: str = "", **more: Json) -> None:
        """Activate a fault."""
        self.faults.add(Rule.from_json({"kind": kind, "value": value, **more}))

    async def _send(self, method: str, path: str, headers: dict[str, str], content: bytes | None) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._http_api.app())
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.request(method, f"https://sandbox/api2/json{path}", headers=headers, content=content)
