"""API methods: list tasks, read their status and logs, and stop them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pvebox.api import formats
from pvebox.api.errors import ParameterError
from pvebox.api.routes import Call, Reply, anybody, api
from pvebox.api.schema import FLAG, FormatError, Prop
from pvebox.cluster.tasks import Task, Upid, is_error

_TASK = "/nodes/{node}/tasks/{upid}"
_COUNT = Prop(type="integer", minimum=0, optional=True)
_PAGE = 50


_STATES = ("ok", "warning", "error", "unknown")
# A node broadcasts its newest tasks to the cluster.
_BROADCAST = 25


def _status_type(text: str) -> None:
    if text.lower() not in _STATES:
        raise FormatError(f"invalid status '{text}'\n")


def _facts(upid: Upid) -> dict[str, Any]:
    user, _, token = upid.user.partition("!")
    facts: dict[str, Any] = {**_plain_facts(upid), "user": user}
    if token:
        facts["tokenid"] = token
    return facts


def _plain_facts(upid: Upid) -> dict[str, Any]:
    """Return the fields of a UPID, with the token in the user's name."""
    return {"upid": str(upid), **vars(upid)}


def _owns(user: str, upid: Upid) -> bool:
    """Return whether a task is the caller's. A token owns its tasks; a user also owns the tasks of its tokens."""
    return user in (upid.user, upid.user.partition("!")[0])


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
        "errors": FLAG,
        "source": Prop(optional=True, enum=("archive", "active", "all")),
        "since": Prop(type="integer", optional=True),
        "until": Prop(type="integer", optional=True),
        "statusfilter": Prop(optional=True, format=formats.list_of(_status_type)),
    },
)
def listing(call: Call) -> Reply:
    """Return the tasks of a node: the running ones first, then the ended ones, the latest first."""
    source = call.text("source") or "archive"
    start, limit = int(call.params.get("start", 0)), int(call.params.get("limit", _PAGE))
    node = call.node
    here = [task for task in call.cluster.tasks.newest_first() if task.upid.node == node]
    for passes in _checks(call):
        here = list(filter(passes, here))
    active = [task for task in here if task.exitstatus is None] if source in ("active", "all") else []
    ended = [task for task in here if task.exitstatus is not None] if source in ("archive", "all") else []
    page = [*active, *ended][start : start + limit]
    entries = [_active(task.upid) if task.exitstatus is None else _ended(task) for task in page]
    return Reply(entries, len(active) + len(ended))


def _active(upid: Upid) -> dict[str, Any]:
    return {**_plain_facts(upid), "status": "RUNNING", "saved": "0"}


def _ended(task: Task) -> dict[str, Any]:
    return {**_facts(task.upid), "endtime": task.endtime, "status": task.exitstatus}


def _checks(call: Call) -> list[Callable[[Task], bool]]:
    """Return checks that a task must pass: the filters that the call gives, and whether its caller may see the task."""
    found: list[Callable[[Task], bool]] = []
    if not call.allows(f"/nodes/{call.node}", "Sys.Audit"):
        caller = call.user
        found.append(lambda task: _owns(caller, task.upid))
    if user := call.text("userfilter"):
        found.append(lambda task: user.lower() in _listed_user(task).lower())
    if kind := call.text("typefilter"):
        found.append(lambda task: task.upid.type == kind)
    if vmid := call.text("vmid"):
        found.append(lambda task: task.upid.id == vmid)
    if (since := call.text("since")) is not None:
        first = int(since)
        found.append(lambda task: task.upid.starttime >= first)
    if (until := call.text("until")) is not None:
        last = int(until)
        found.append(lambda task: task.upid.starttime <= last)
    if call.flag("errors"):
        found.append(lambda task: _state(task.exitstatus) != "ok")
    elif (listed := call.text("statusfilter")) is not None:
        states = {state.lower() for state in formats.split_list(listed)}
        found.append(lambda task: _state(task.exitstatus) in states)
    return found


def _listed_user(task: Task) -> str:
    """Return the user as a list shows it. Only the list of running tasks has the token in the user's name."""
    return task.upid.user if task.exitstatus is None else task.upid.user.partition("!")[0]


def _state(status: str | None) -> str:
    if status is None or status == "unexpected status":
        return "unknown"
    if status == "OK":
        return "ok"
    return "error" if is_error(status) else "warning"


@api.method("GET", "/cluster/tasks", anybody)
def cluster_tasks(call: Call) -> list[dict[str, Any]]:
    """Return the newest tasks of all nodes.

    Without Sys.Audit on / a caller gets its own tasks. As in Proxmox that is nothing for a token, because the user of
    a task is compared without the token's name.
    """
    tasks = list(call.cluster.tasks.newest_first())
    shown: list[dict[str, Any]] = []
    for node in call.cluster.nodes:
        for task in [each for each in tasks if each.upid.node == node][:_BROADCAST]:
            entry = _facts(task.upid) | {"saved": str(int(task.exitstatus is not None))}
            if task.exitstatus is not None:
                entry |= {"endtime": task.endtime, "status": task.exitstatus}
            if call.allows("/", "Sys.Audit") or entry["user"] == call.user:
                shown.append(entry)
    return shown


@api.method("GET", "/cluster/log", anybody, {"max": Prop(type="integer", minimum=1, optional=True)})
def cluster_log(call: Call) -> list[dict[str, Any]]:
    """Return the newest lines of the cluster's log: all for a caller with Sys.Syslog, else the caller's own."""
    user = None if call.allows("/", "Sys.Syslog") else call.user
    return call.cluster.tasks.cluster_log.newest(user, int(call.params.get("max", 0)))


def _own_or(call: Call, upid: Upid, privilege: str) -> None:
    if not _owns(call.user, upid):
        call.require(f"/nodes/{call.node}", privilege)


def _existing(call: Call) -> Task:
    upid = Upid.parse(str(call.params["upid"]))
    task = call.cluster.tasks.find(str(upid))
    if task is None:
        raise ParameterError({"upid": "no such task"})
    return task


@api.method("GET", f"{_TASK}/status", anybody)
def status(call: Call) -> dict[str, Any]:
    """Return whether a task is running, or its exit status."""
    task = _existing(call)
    _own_or(call, task.upid, "Sys.Audit")
    if task.exitstatus is None:
        return {**_facts(task.upid), "status": "running"}
    return {**_facts(task.upid), "status": "stopped", "exitstatus": task.exitstatus}


@api.method(
    "GET",
    f"{_TASK}/log",
    anybody,
    {"start": _COUNT, "limit": _COUNT, "download": FLAG},
)
def log(call: Call) -> Reply:
    """Return a page of a task's log."""
    upid = Upid.parse(str(call.params["upid"]))
    _own_or(call, upid, "Sys.Audit")
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
    task = _existing(call)
    _own_or(call, task.upid, "Sys.Modify")
    if task.exitstatus is None:
        task.abort()
