"""API methods: list, take, roll back, describe and delete snapshots."""

from __future__ import annotations

import contextlib
from typing import Any

from pvebox.api import formats
from pvebox.api.errors import OperationError
from pvebox.api.routes import AUDIT, CONTAINER, Call, anybody, api, having
from pvebox.api.schema import FLAG, Prop
from pvebox.cluster.tasks import Task
from pvebox.guests.lifecycle import begin_start
from pvebox.guests.snapshots import Snapshot

_SNAPSHOTS = f"{CONTAINER}/snapshot"
_ONE = f"{_SNAPSHOTS}/{{snapname}}"
_NAME = Prop(format=formats.configid, max_length=40)
_SNAPSHOT = having("/vms/{vmid}", "VM.Snapshot")
_READ = having("/vms/{vmid}", "VM.Snapshot", "VM.Snapshot.Rollback", "VM.Audit", any_of=True)
_ROLLBACK = having("/vms/{vmid}", "VM.Snapshot", "VM.Snapshot.Rollback", any_of=True)


@api.method("GET", _SNAPSHOTS, AUDIT)
def listing(call: Call) -> list[dict[str, Any]]:
    """Return the snapshots of a container, and its current state as the last entry."""
    cluster, vmid = call.cluster, call.vmid
    config = cluster.configs.load(vmid, call.node)
    found = []
    for name, section in sorted(config.snapshots.items()):
        entry = {"name": name, "snaptime": section.get("snaptime", 0), "description": section.get("description", "")}
        found.append(entry | {key: section[key] for key in ("parent", "snapstate") if key in section})
    current: dict[str, Any] = {
        "name": "current",
        "description": "You are here!",
        "digest": config.digest,
        "running": int(cluster.runtime.containers.running(vmid)),
    }
    if "parent" in config.options:
        current["parent"] = config.options["parent"]
    return [*found, current]


@api.method("POST", _SNAPSHOTS, _SNAPSHOT, {"snapname": _NAME, "description": Prop(optional=True)})
def take(call: Call) -> str:
    """Take a snapshot in a task."""
    cluster, vmid, node, name = call.cluster, call.vmid, call.node, str(call.params["snapname"])
    if name in ("current", "vzdump"):
        raise OperationError(f"unable to use snapshot name '{name}' (reserved name)")
    description = call.text("description") or ""

    def work(task: Task) -> None:
        cluster.tasks.note(task, f"snapshot container {vmid}: {name}")
        Snapshot(cluster, vmid, node, name, task.say).take(description)

    return cluster.tasks.start(node, "vzsnapshot", str(vmid), call.user, work)


@api.method("GET", _ONE, anybody, {"snapname": _NAME})
def index(call: Call) -> list[dict[str, str]]:
    """Return the names below a snapshot's path."""
    return [{"cmd": "rollback"}, {"cmd": "config"}]


@api.method("DELETE", _ONE, _SNAPSHOT, {"snapname": _NAME, "force": FLAG})
def delete(call: Call) -> str:
    """Delete a snapshot in a task."""
    cluster, vmid, node, name = call.cluster, call.vmid, call.node, str(call.params["snapname"])
    force = call.flag("force")

    def work(task: Task) -> None:
        # The lock excludes migration, and replication, which also makes snapshots.
        with contextlib.ExitStack() as stack:
            if not force:
                try:
                    stack.enter_context(cluster.configs.migration_lock(vmid, task.say))
                except OperationError:
                    message = "Failed to obtain guest migration lock - replication running?"
                    raise OperationError(message) from None
            cluster.tasks.note(task, f"delete snapshot VM {vmid}: {name}")
            Snapshot(cluster, vmid, node, name, task.say).delete(force=force)

    return cluster.tasks.start(node, "vzdelsnapshot", str(vmid), call.user, work)


@api.method("GET", f"{_ONE}/config", _READ, {"snapname": _NAME})
def config(call: Call) -> dict[str, Any]:
    """Return the config in a snapshot."""
    return dict(call.cluster.configs.load(call.vmid, call.node).section(str(call.params["snapname"])))


@api.method("PUT", f"{_ONE}/config", _SNAPSHOT, {"snapname": _NAME, "description": Prop(optional=True)})
def describe(call: Call) -> None:
    """Change a snapshot's description."""
    description = call.text("description")
    if description is None:
        return
    with call.cluster.configs.changing(call.vmid, call.node) as config:
        config.require_unlocked()
        config.section(str(call.params["snapname"]))["description"] = description


@api.method("POST", f"{_ONE}/rollback", _ROLLBACK, {"snapname": _NAME, "start": FLAG})
def roll_back(call: Call) -> str:
    """Roll back to a snapshot in a task."""
    cluster, vmid, node, name = call.cluster, call.vmid, call.node, str(call.params["snapname"])
    start_after, user = call.flag("start"), call.user

    def work(task: Task) -> None:
        with cluster.configs.migration_lock(vmid, task.say):
            cluster.tasks.note(task, f"rollback snapshot LXC {vmid}: {name}")
            Snapshot(cluster, vmid, node, name, task.say).roll_back()
            if start_after:
                begin_start(cluster, vmid, node, user)

    return cluster.tasks.start(node, "vzrollback", str(vmid), call.user, work)
