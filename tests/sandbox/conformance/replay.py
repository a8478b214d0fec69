"""Send recorded requests to the sandbox and compare its answers with the recorded ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from pvebox.access.lines import access_lines
from pvebox.cluster.assembly import memory_cluster
from pvebox.cluster.cluster import Cluster
from pvebox.guests.status import Statistics
from pvebox.guests.storage import Storage
from pvebox.server.http import HttpApi
from sandbox.conformance.recordings import Recordings, masked, masked_log, masked_text, renumbered

Json = Any
# The state before these was recorded while the container of the request was being converted to a template.
CONVERTED = ("r379", "P020")
# Recorded before the node had collected figures of the new containers.
UNCOLLECTED = ("P036",)
# Clients read the logs of these tasks, so all lines are compared.
LOGGED = ("vzdump", "vzrestore", "prunebackups", "imgdel")


class Replay:
    """A sandbox that answers recorded requests."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # Proxmox waits ten seconds for a lock. Here a short wait is enough.
        self.cluster.configs.lock_timeout = 0.2
        self._secrets = {name: token.secret for name, token in self.cluster.access.tokens.items()}
        self._app = HttpApi(self.cluster, delay_401=0).app()

    @classmethod
    def of(cls, directory: Path, fixture: Mapping[str, Json], state: Mapping[str, Json]) -> Replay:
        """Return a memory sandbox in a recorded state."""
        return cls(memory_cluster(directory, {**fixture, "state": state}))

    def ask(self, request: Mapping[str, Json]) -> tuple[int, str, Json]:
        """Send a recorded request and return status, reason and body."""
        headers = {}
        if request.get("token"):
            headers["Authorization"] = f"PVEAPIToken={request['token']}={self._secrets[request['token']]}"
        elif request.get("authorization"):
            headers["Authorization"] = request["authorization"]
        params = request.get("params") or {}
        path = request["path"]
        content: bytes | None = None
        if params and request["method"] in ("GET", "DELETE", "HEAD"):
            path += "?" + urlencode(params)
        elif params and request.get("encoding") == "json":
            content = json.dumps(params).encode()
            headers["Content-Type"] = "application/json"
        elif params:
            content = urlencode(params).encode()
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        answer = asyncio.run(self._send(request["method"], path, headers, content))
        body: Json = answer.json() if answer.content else ""
        return answer.status_code, answer.headers["x-pvebox-reason"], body

    async def _send(self, method: str, path: str, headers: dict[str, str], content: bytes | None) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._app)
        async with httpx.AsyncClient(transport=transport, base_url="https://sandbox") as client:
            return await client.request(method, f"https://sandbox{path}", headers=headers, content=content)

    def settle(self) -> None:
        """Wait until no task runs."""
        while running := self.cluster.tasks.running():
            running[0].ended.wait(30)


def state_of(cluster: Cluster) -> dict[str, Json]:
    """Return the state of a cluster in the format of the recordings."""
    node = next(iter(cluster.nodes))
    thin = next(s.id for s in cluster.storages.values() if s.type == "lvmthin")
    directories = [
        path
        for storage in cluster.storages.values()
        if storage.type == "dir"
        for path in _paths(cluster, node, storage)
    ]
    return {
        "config": {str(vmid): cluster.configs.text(vmid, node) for vmid in cluster.configs.vmids()},
        "volumes": {volume.ref.name: volume.size for volume in cluster.runtime.volumes.on(node, thin)},
        "running": [str(v) for v in cluster.configs.vmids() if cluster.runtime.containers.running(v)],
        "access": access_lines(cluster.access),
        "dir": directories,
    }


def _paths(cluster: Cluster, node: str, storage: Storage) -> Iterator[str]:
    """Yield the paths of a directory storage's volumes and backups, and of the files beside the backups."""
    for volume in cluster.runtime.volumes.on(node, storage.id):
        yield storage.device(volume.ref.name)
    for name in cluster.runtime.files(node, storage.id):
        if name.startswith("backup/"):
            yield f"{storage.path}/dump/{name.removeprefix('backup/')}"


def differences(case: Mapping[str, Json], recordings: Recordings, directory: Path) -> list[str]:
    """Run a case in a new memory sandbox and return all differences from the recording."""
    states = recordings.states
    replay = Replay.of(directory, recordings.fixture(case), states[case["before"]])
    if case["id"] in UNCOLLECTED:
        replay.cluster.statistics = Statistics(replay.cluster, interval=math.inf)
    return case_differences(case, states, replay)


def case_differences(
    case: Mapping[str, Json], states: Mapping[str, Json], replay: Replay, not_started: Iterable[str] = ()
) -> list[str]:
    """Run a case in a sandbox that is in the case's state, and return all differences.

    `not_started` names the containers that run in the recorded state but were not started in the sandbox.
    """
    if case["id"] in CONVERTED:
        _finish_conversion(case, replay)
    with _held_lock(case, replay.cluster):
        status, reason, body = replay.ask(case["request"])
        found = answer_differences(case, status, reason, body)
        # If the answer is not a UPID, the state was recorded at once, while a task may still have been running.
        if isinstance(body, dict) and str(body.get("data")).startswith("UPID:"):
            replay.settle()
            if case.get("task"):
                found += task_differences(case, replay.cluster, body["data"])
        if case.get("after"):
            found += _state_differences(case, states, replay.cluster, not_started)
    replay.settle()
    return found


def _finish_conversion(case: Mapping[str, Json], replay: Replay) -> None:
    path = re.sub(r"(/lxc/\d+)/.*", r"\1/template", case["request"]["path"])
    status, reason, _ = replay.ask({**case["request"], "method": "POST", "path": path, "params": {}})
    assert status == 200, reason
    replay.settle()


@contextlib.contextmanager
def _held_lock(case: Mapping[str, Json], cluster: Cluster) -> Iterator[None]:
    """Hold the lock of a config while the case runs, if the case's description says so."""
    vmid = re.search(r"/lxc/(\d+)", case["request"]["path"])
    if "holds the config lock" not in case["case"] or vmid is None:
        yield
        return
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with cluster.configs.lock(int(vmid[1])):
            held.set()
            done.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(5)
    try:
        yield
    finally:
        done.set()
        holder.join()


def answer_differences(case: Mapping[str, Json], status: int, reason: str, body: Json) -> list[str]:
    """Return the differences of an answer from the recorded one."""
    recorded = case["response"]
    found = []
    if status != recorded["status"]:
        found.append(f"status {status} instead of {recorded['status']} ({reason})")
    wanted = masked_text(recorded["reason"])
    if masked_text(reason) != wanted:
        found.append(f"reason {reason!r} instead of {recorded['reason']!r}")
    if masked(body) != masked(recorded["body"]):
        found.append(f"body {masked(body)} instead of {masked(recorded['body'])}")
    return found


def task_differences(case: Mapping[str, Json], cluster: Cluster, upid: str) -> list[str]:
    """Return the differences of a finished task from the recorded one."""
    task = cluster.tasks.wait(upid)
    recorded = case["task"]
    found = []
    facts = (task.upid.type, task.upid.id, masked_text(task.exitstatus or ""))
    wanted = (recorded["type"], recorded["id"], masked_text(recorded["exitstatus"]))
    if facts != wanted:
        found.append(f"task {facts} instead of {wanted}")
    warnings = [line for line in task.log if line.startswith("WARN")]
    wanted_warnings = [line for line in recorded["log"] if line.startswith("WARN")]
    if warnings != wanted_warnings:
        found.append(f"warnings {warnings} instead of {wanted_warnings}")
    log, wanted_log = masked_log(task.log), masked_log(recorded["log"])
    if task.upid.type in LOGGED and log != wanted_log:
        found.append(f"log {log} instead of {wanted_log}")
    return found


def _state_differences(
    case: Mapping[str, Json], states: Mapping[str, Json], cluster: Cluster, not_started: Iterable[str]
) -> list[str]:
    new_vmid = (case["request"].get("params") or {}).get("newid")
    clone = None if new_vmid is None else str(new_vmid)
    now, wanted = state_of(cluster), states[case["after"]]
    configs, volumes = renumbered(now, clone)
    wanted_configs, wanted_volumes = renumbered(wanted, clone)
    found = []
    for vmid in sorted({*configs, *wanted_configs}):
        if configs.get(vmid) != wanted_configs.get(vmid):
            found.append(f"config {vmid}: {configs.get(vmid)!r} instead of {wanted_configs.get(vmid)!r}")
    if volumes != wanted_volumes:
        extra, missing = volumes.items() - wanted_volumes.items(), wanted_volumes.items() - volumes.items()
        found.append(f"volumes: {sorted(extra)} instead of {sorted(missing)}")
    unclear = {*not_started, *_ending(case)}
    if set(now["running"]) - unclear != set(wanted["running"]) - unclear:
        found.append(f"running: {now['running']} instead of {wanted['running']}")
    ours, theirs = (Counter(masked_text(path) for path in each["dir"]) for each in (now, wanted))
    if ours != theirs:
        found.append(f"files: {sorted(ours - theirs)} instead of {sorted(theirs - ours)}")
    if access_entries(now["access"]) != access_entries(wanted["access"]):
        found.append(f"access: {now['access']} instead of {wanted['access']}")
    return found


def _ending(case: Mapping[str, Json]) -> set[str]:
    """Return the container whose start failed. Its first process may still have been there when the state was read."""
    failed = re.fullmatch(r"startup for container '(\d+)' failed", (case.get("task") or {}).get("exitstatus", ""))
    return {failed[1]} if failed else set()


def access_entries(lines: list[str]) -> set[tuple[str, ...]]:
    """Return the pools and ACLs. Several users or roles on one line are the same as one line each."""
    entries: set[tuple[str, ...]] = set()
    for line in lines:
        parts = line.split(":")
        if parts[0] == "acl":
            entries.update(
                (parts[1], parts[2], ugid, role) for ugid in parts[3].split(",") for role in parts[4].split(",")
            )
        elif parts[0] == "pool":
            entries.add(tuple(parts))
    return entries
