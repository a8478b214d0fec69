"""The control endpoint: inject faults, run console commands and crash nodes, with the sandbox's own key."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
import time
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pvebox.api.errors import SandboxError
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.faults import Faults, Rule
from pvebox.cluster.hamanager import HaManager
from pvebox.console.console import Console
from pvebox.guests.lifecycle import start_on_boot
from pvebox.server.background import KEY_HEADER


class Control:
    """Answers the requests to /control/."""

    def __init__(self, cluster: Cluster, faults: Faults, key: str) -> None:
        self._cluster = cluster
        self._faults = faults
        self._key = key
        self._console = Console(cluster)

    async def __call__(self, request: Request) -> Response:
        """Answer one control request."""
        if not hmac.compare_digest(request.headers.get(KEY_HEADER, "").encode(), self._key.encode()):
            return JSONResponse({"error": "The control key is wrong or missing."}, status_code=401)
        try:
            body: dict[str, Any] = json.loads(await request.body() or b"{}")
            said = await self._answer(request.method, request.url.path, body)
            return JSONResponse({} if said is None else said)
        except (SandboxError, ValueError, KeyError) as error:
            hint = error.hint if isinstance(error, SandboxError) else ""
            return JSONResponse({"error": str(error), "hint": hint}, status_code=400)

    async def _answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        match method, path.removeprefix("/control/").split("/"):
            case "GET", ["faults"]:
                return self._faults.listing()
            case "POST", ["faults"]:
                return {"id": self._faults.add(Rule.from_json(body)).id}
            case "DELETE", ["faults"]:
                self._faults.clear()
            case "DELETE", ["faults", number]:
                self._faults.clear(int(number))
            case "POST", ["root"]:
                given = {str(name): base64.b64decode(text) for name, text in body.get("files", {}).items()}
                said = await run_in_threadpool(self._console.run, [str(word) for word in body["argv"]], given)
                return {"code": said.code, "out": said.out, "err": said.err}
            case "POST", ["attach"]:
                return {"argv": await run_in_threadpool(self._console.attach_command, list(map(str, body["argv"])))}
            case "POST", ["kill", vmid]:
                await run_in_threadpool(self._cluster.runtime.containers.stop, int(vmid))
            case "POST", ["fill", storage]:
                self._cluster.full.add(storage)
            case "DELETE", ["fill", storage]:
                self._cluster.full.discard(storage)
            case "POST", ["clock"]:
                self._cluster.clock_offset = float(body["seconds"])
            case "POST", ["crash"]:
                await self._crash(float(body.get("seconds", 2)))
            case "POST", ["lock", vmid]:
                await self._hold_lock(int(vmid), float(body["seconds"]))
            case "POST" | "DELETE", ["offline" | "silent", node] if node not in self._cluster.nodes:
                nodes = ", ".join(self._cluster.nodes)
                raise SandboxError(f"There is no node {node}.", hint=f"The nodes are {nodes}.")
            case "POST" | "DELETE", ["offline", node]:
                self._set_offline(node, offline=method == "POST")
            case "POST" | "DELETE", ["silent", node]:
                self._set_silent(node, silent=method == "POST")
            case "POST", ["ha"]:
                self._cluster.ha.manager = HaManager(self._cluster, float(body.get("seconds", 7)))
            case "DELETE", ["ha"]:
                self._cluster.ha.manager = None
            case "GET", ["status"]:
                return await run_in_threadpool(self._status)
            case _:
                raise SandboxError(f"The control endpoint has no {method} {path}.")
        return None

    async def _hold_lock(self, vmid: int, seconds: float) -> None:
        """Hold the lock of a config for some seconds. Return once it is held."""
        held = threading.Event()

        def hold() -> None:
            with self._cluster.configs.lock(vmid):
                held.set()
                time.sleep(seconds)

        threading.Thread(target=hold, daemon=True).start()
        if not await run_in_threadpool(held.wait, self._cluster.configs.lock_timeout):
            raise SandboxError(f"The lock of container {vmid} is held by a task.")

    def _set_silent(self, node: str, *, silent: bool) -> None:
        """Stop the pvestatd of a node, or start it again."""
        members = self._cluster.members
        members.silent = members.silent | {node} if silent else members.silent - {node}

    def _set_offline(self, node: str, *, offline: bool) -> None:
        """Cut a node off from the others, or connect it again. The cluster has quorum with a majority of its nodes."""
        nodes, members = self._cluster.nodes, self._cluster.members
        if node == self._cluster.local_node:
            raise SandboxError(f"The node {node} answers the requests, so it cannot be offline.")
        members.offline = members.offline | {node} if offline else members.offline - {node}
        members.quorate = 2 * (len(nodes) - len(members.offline)) > len(nodes)

    async def _crash(self, seconds: float) -> None:
        """Crash all nodes with their running tasks and containers, and boot them again after some seconds."""
        self._faults.down_until = time.monotonic() + seconds
        await run_in_threadpool(self._stop_everything)
        asyncio.get_running_loop().call_later(seconds, start_on_boot, self._cluster)

    def _stop_everything(self) -> None:
        for task in self._cluster.tasks.running():
            task.crash()
        for vmid in self._cluster.configs.vmids():
            if self._cluster.runtime.containers.running(vmid):
                self._cluster.runtime.containers.crash(vmid)

    def _status(self) -> dict[str, Any]:
        running = self._cluster.runtime.containers.running
        return {
            "nodes": list(self._cluster.nodes),
            "containers": {vmid: running(vmid) for vmid in self._cluster.configs.vmids()},
            "tasks": [str(task.upid) for task in self._cluster.tasks.running()],
            "faults": self._faults.listing(),
        }
