"""API methods: list tasks, read their status and logs, and stop them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import formats
from ..errors import ParameterError
from ..routes import Call, Reply, anybody, api
from ..schema import FormatError, Prop
from ..tasks import Task, Upid, is_error

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
    return {
        "upid": str(upid),
        "node": upid.node,
        "pid": upid.pid,
        "pstart": upid.pstart,
        "starttime": upid.starttime,
        "type": upid.type,
        "id": upid.id,
        "user": upid.user,
    }


def _owns(user: str, upid: Upid) -> bool:
    """Return whether a task is the caller's. A token sees its own tasks, a user also those of all its tokens."""
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
        "errors": Prop(type="boolean", optional=True),
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
    wanted = _Filter.of(call)
    here = [task for task in call.cluster.tasks.newest_first() if task.upid.node == call.node]
    entries: list[dict[str, Any]] = []
    if source in ("active", "all"):
        entries += [_active(task.upid) for task in here if task.exitstatus is None and wanted.passes(task)]
    if source in ("archive", "all"):
        entries += [_ended(task) for task in here if task.exitstatus is not None and wanted.passes(task)]
    return Reply(entries[start : start + limit], len(entries))


def _active(upid: Upid) -> dict[str, Any]:
    return {**_plain_facts(upid), "status": "RUNNING", "saved": "0"}


def _ended(task: Task) -> dict[str, Any]:
    return {**_facts(task.upid), "endtime": task.endtime, "status": task.exitstatus}


@dataclass(frozen=True)
class _Filter:
    """The tasks that a call asks for and that its caller may see: all with Sys.Audit, else the caller's own."""

    caller: str
    audits: bool
    user: str | None
    type: str | None
    vmid: str | None
    since: int | None
    until: int | None
    states: frozenset[str]

    @classmethod
    def of(cls, call: Call) -> _Filter:
        states = frozenset(_STATES)
        if call.flag("errors"):
            states -= {"ok"}
        elif call.text("statusfilter") is not None:
            states = frozenset(state.lower() for state in formats.split_list(call.text("statusfilter") or ""))
        since, until = call.text("since"), call.text("until")
        return cls(
            caller=call.user,
            audits=call.allows(f"/nodes/{call.node}", "Sys.Audit"),
            user=call.text("userfilter"),
            type=call.text("typefilter"),
            vmid=call.text("vmid"),
            since=None if since is None else int(since),
            until=None if until is None else int(until),
            states=states,
        )

    def passes(self, task: Task) -> bool:
        """Return whether a task is in the list."""
        upid = task.upid
        # Only the list of running tasks has the token in the user's name.
        user = upid.user if task.exitstatus is None else upid.user.partition("!")[0]
        return (
            (not self.user or self.user.lower() in user.lower())
            and (self.audits or _owns(self.caller, upid))
            and (not self.type or self.type == upid.type)
            and (not self.vmid or self.vmid == upid.id)
            and (self.since is None or upid.starttime >= self.since)
            and (self.until is None or upid.starttime <= self.until)
            and _state(task.exitstatus) in self.states
        )


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
    lines = call.cluster.tasks.cluster_log.newest(user, int(call.params.get("max", 0)))
    return [line.entry() for line in lines]


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
    {"start": _COUNT, "limit": _COUNT, "download": Prop(type="boolean", optional=True)},
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
