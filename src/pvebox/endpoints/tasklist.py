"""API methods: list tasks, read their status and logs, and stop them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import formats
from ..errors import OperationError, ParameterError
from ..routes import Call, Reply, anybody, api
from ..schema import Prop
from ..tasks import Task, Upid

_TASK = "/nodes/{node}/tasks/{upid}"
_COUNT = Prop(type="integer", minimum=0, optional=True)
_PAGE = 50


def _facts(upid: Upid) -> dict[str, Any]:
    user, _, token = upid.user.partition("!")
    facts: dict[str, Any] = {
        "upid": str(upid),
        "node": upid.node,
        "pid": upid.pid,
        "pstart": upid.pstart,
        "starttime": upid.starttime,
        "type": upid.type,
        "id": upid.id,
        "user": user,
    }
    if token:
        facts["tokenid"] = token
    return facts


def _is_error(status: str | None) -> bool:
    return status is not None and status != "OK" and not status.startswith("WARNINGS")


@api.method(
    "GET",
    "/nodes/{node}/tasks",
    anybody,
    {
        "start": _COUNT,
        "limit": _COUNT,
        "userfilter": Prop(optional=True),
        "typefilter": Prop(optional=True),
        "vmid": Prop(type="integer", optional=True, format=formats.vmid),
        "errors": Prop(type="boolean", optional=True),
        "source": Prop(optional=True, enum=("archive", "active", "all")),
        "since": Prop(type="integer", optional=True),
        "until": Prop(type="integer", optional=True),
        "statusfilter": Prop(optional=True),
    },
)
def listing(call: Call) -> Reply:
    """Return the tasks of a node, newest first: all for a caller with Sys.Audit, else the caller's own."""
    source = call.text("source") or "archive"
    start, limit = int(call.params.get("start", 0)), int(call.params.get("limit", _PAGE))
    audits = call.allows(f"/nodes/{call.node}", "Sys.Audit")
    node, filters = call.node, _filters(call)
    matching = [
        task
        for task in call.cluster.tasks.newest_first()
        if task.upid.node == node
        and (audits or task.upid.user == call.user)
        and _in_source(task, source)
        and all(passes(task) for passes in filters)
    ]
    entries = []
    for task in matching[start : start + limit] if limit else matching[start:]:
        entry = _facts(task.upid)
        if task.exitstatus is not None:
            entry |= {"endtime": task.endtime, "status": task.exitstatus}
        entries.append(entry)
    return Reply(entries, len(matching))


def _in_source(task: Task, source: str) -> bool:
    return source == "all" or (source == "active") == (task.exitstatus is None)


def _filters(call: Call) -> list[Callable[[Task], bool]]:
    """Return the checks that the caller's parameters ask for."""
    found: list[Callable[[Task], bool]] = []
    if (vmid := call.text("vmid")) is not None:
        found.append(lambda task: task.upid.id == vmid)
    if (kind := call.text("typefilter")) is not None:
        found.append(lambda task: task.upid.type == kind)
    if (user := call.text("userfilter")) is not None:
        found.append(lambda task: user in task.upid.user)
    if call.flag("errors"):
        found.append(lambda task: _is_error(task.exitstatus))
    if "since" in call.params:
        since = int(call.params["since"])
        found.append(lambda task: task.upid.starttime >= since)
    if "until" in call.params:
        until = int(call.params["until"])
        found.append(lambda task: task.upid.starttime <= until)
    if statuses := formats.split_list(call.text("statusfilter") or ""):
        found.append(lambda task: _status_kind(task.exitstatus) in statuses)
    return found


def _status_kind(status: str | None) -> str:
    if status is None:
        return "unknown"
    if status == "OK":
        return "ok"
    return "warning" if status.startswith("WARNINGS") else "error"


def _own_or(call: Call, privilege: str) -> Upid:
    upid = Upid.parse(str(call.params["upid"]))
    if upid.user != call.user:
        call.require(f"/nodes/{call.node}", privilege)
    return upid


@api.method("GET", f"{_TASK}/status", anybody)
def status(call: Call) -> dict[str, Any]:
    """Return whether a task is running, or its exit status."""
    upid = _own_or(call, "Sys.Audit")
    task = call.cluster.tasks.find(str(upid))
    if task is None:
        raise ParameterError({"upid": "no such task"})
    if task.exitstatus is None:
        return {**_facts(upid), "status": "running"}
    return {**_facts(upid), "status": "stopped", "exitstatus": task.exitstatus}


@api.method(
    "GET",
    f"{_TASK}/log",
    anybody,
    {"start": _COUNT, "limit": _COUNT, "download": Prop(type="boolean", optional=True)},
)
def log(call: Call) -> Reply:
    """Return a page of a task's log."""
    upid = _own_or(call, "Sys.Audit")
    task = call.cluster.tasks.find(str(upid))
    lines = list(task.log) if task is not None else ["unable to open file - No such file or directory"]
    start, limit = int(call.params.get("start", 0)), int(call.params.get("limit", _PAGE))
    page = lines[start : start + limit] if limit else lines[start:]
    numbered = [{"n": start + number, "t": text} for number, text in enumerate(page, 1)]
    if not lines:
        return Reply([{"n": 1, "t": "no content"}], 1)
    return Reply(numbered, len(lines))


@api.method("DELETE", _TASK, anybody)
def stop(call: Call) -> None:
    """Ask a running task to stop. A finished task stays unchanged."""
    upid = _own_or(call, "Sys.Modify")
    task = call.cluster.tasks.find(str(upid))
    if task is None:
        raise OperationError("no such task")
    if task.exitstatus is None:
        task.abort()
