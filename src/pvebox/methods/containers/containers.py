"""API methods: list, start, stop and destroy containers; status, interfaces and firewall."""

from __future__ import annotations

import hashlib
from typing import Any

from pvebox.api import formats
from pvebox.api.errors import OperationError, ParameterError
from pvebox.api.routes import AUDIT, CONTAINER, Call, anybody, api, having
from pvebox.api.schema import FLAG, Prop
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.tasks import Task
from pvebox.guests.features import has_feature
from pvebox.guests.lifecycle import begin_start, destroy, start
from pvebox.guests.status import container_status

_POWER = having("/vms/{vmid}", "VM.PowerMgmt")


@api.method("GET", "/nodes/{node}/lxc", anybody)
def listing(call: Call) -> list[dict[str, Any]]:
    """Return the containers of a node that the caller may see."""
    return [
        container_status(call.cluster, vmid, call.node)
        for vmid in call.cluster.configs.vmids(call.node)
        if call.allows(f"/vms/{vmid}", "VM.Audit")
    ]


@api.method("GET", CONTAINER, anybody)
def index(call: Call) -> list[dict[str, str]]:
    """Return the names below a container's path."""
    call.cluster.configs.load(call.vmid, call.node)
    names = (
        *("config", "pending", "status", "vncproxy", "termproxy", "vncwebsocket", "spiceproxy", "migrate"),
        *("clone", "rrd", "rrddata", "firewall", "snapshot", "resize", "interfaces"),
    )
    return [{"subdir": name} for name in names]


@api.method("GET", f"{CONTAINER}/status/current", AUDIT)
def current(call: Call) -> dict[str, Any]:
    """Return the status and usage figures of a container."""
    entry = container_status(call.cluster, call.vmid, call.node)
    entry["ha"] = _ha_status(call)
    return entry


def _ha_status(call: Call) -> dict[str, Any]:
    """Return whether the HA manager is responsible, and the state of the service if its daemons run."""
    ha = call.cluster.ha
    return {"managed": 1, "state": ha.state_of(call.vmid)} if ha.manages(call.vmid) else {"managed": 0}


def _ask_ha(call: Call, verb: str) -> str:
    """Start the task that only passes a request to the HA manager."""
    cluster, vmid = call.cluster, call.vmid

    def work(task: Task) -> None:
        task.say(f"Requesting HA {verb} for CT {vmid}")
        if verb == "start":
            sid = f"ct:{vmid}"
            cluster.ha.put_resource(sid, {**cluster.ha.resources[sid], "state": "started"})
        if cluster.ha.manager is not None:
            cluster.ha.manager.queue(vmid, verb)

    return cluster.tasks.start(call.node, f"ha{verb}", str(vmid), call.user, work)


def _refuse_skiplock(call: Call) -> None:
    if call.flag("skiplock") and not call.is_root:
        raise ParameterError({"skiplock": "Only root may use this option."})


@api.method("POST", f"{CONTAINER}/status/start", _POWER, {"skiplock": FLAG, "debug": FLAG})
def begin(call: Call) -> str:
    """Start a container in a task."""
    _refuse_skiplock(call)
    if call.cluster.runtime.containers.running(call.vmid):
        raise OperationError(f"CT {call.vmid} already running")
    call.cluster.members.require_quorum()
    if call.cluster.ha.manages(call.vmid):
        return _ask_ha(call, "start")
    return begin_start(call.cluster, call.vmid, call.node, call.user, skip_lock=call.flag("skiplock"))


@api.method("POST", f"{CONTAINER}/status/stop", _POWER, {"skiplock": FLAG, "overrule-shutdown": FLAG})
def stop(call: Call) -> str:
    """Kill a container in a task."""
    _refuse_skiplock(call)
    cluster, vmid, node = call.cluster, call.vmid, call.node
    if not cluster.runtime.containers.running(vmid):
        raise OperationError(f"CT {vmid} not running")
    if cluster.ha.manages(vmid):
        return _ask_ha(call, "stop")
    skip_lock, overrule = call.flag("skiplock"), call.flag("overrule-shutdown")

    def work(task: Task) -> None:
        if overrule:
            _abort_shutdowns(cluster, vmid, task)
        with cluster.configs.lock(vmid, task.say):
            config = cluster.configs.load(vmid, node)
            if config.text("lock") != "mounted" and not skip_lock:
                config.require_unlocked()
            cluster.runtime.containers.stop(vmid)

    return cluster.tasks.start(node, "vzstop", str(vmid), call.user, work)


def _abort_shutdowns(cluster: Cluster, vmid: int, task: Task) -> None:
    shutdowns = [
        each for each in cluster.tasks.running() if (each.upid.type, each.upid.id) == ("vzshutdown", str(vmid))
    ]
    for each in shutdowns:
        each.abort()
    if shutdowns:
        task.say(f"overruled vzshutdown tasks: {', '.join(str(each.upid) for each in shutdowns)}")


@api.method(
    "POST",
    f"{CONTAINER}/status/shutdown",
    _POWER,
    {"timeout": Prop(type="integer", minimum=0, optional=True), "forceStop": FLAG},
)
def shutdown(call: Call) -> str:
    """Shut a container down in a task."""
    cluster, vmid, node = call.cluster, call.vmid, call.node
    if not cluster.runtime.containers.running(vmid):
        raise OperationError(f"CT {vmid} not running")
    if cluster.ha.manages(vmid):
        return _ask_ha(call, "stop")
    timeout = int(call.params.get("timeout", 60))
    force = call.flag("forceStop")

    def work(task: Task) -> None:
        with cluster.configs.lock(vmid, task.say):
            cluster.configs.load(vmid, node).require_unlocked()
            if not cluster.runtime.containers.shutdown(vmid, timeout):
                task.check_aborted()
                if not force:
                    raise OperationError("container did not stop")
                cluster.runtime.containers.stop(vmid)

    return cluster.tasks.start(node, "vzshutdown", str(vmid), call.user, work)


@api.method(
    "POST",
    f"{CONTAINER}/status/reboot",
    _POWER,
    {"timeout": Prop(type="integer", minimum=0, optional=True)},
)
def reboot(call: Call) -> str:
    """Shut a container down and start it again in a task."""
    cluster, vmid, node = call.cluster, call.vmid, call.node
    if not cluster.runtime.containers.running(vmid):
        raise OperationError(f"VM {vmid} not running")
    timeout = int(call.params.get("timeout", 60))

    def work(task: Task) -> None:
        # As in Proxmox, a lock in the config does not stop a reboot.
        with cluster.configs.lock(vmid, task.say):
            if not cluster.runtime.containers.running(vmid):
                return
            if not cluster.runtime.containers.shutdown(vmid, timeout):
                cluster.runtime.containers.stop(vmid)
            start(cluster, vmid, node, cluster.configs.load(vmid, node), task.say)

    return cluster.tasks.start(node, "vzreboot", str(vmid), call.user, work)


@api.method("POST", f"{CONTAINER}/status/suspend", _POWER)
def suspend(call: Call) -> str:
    """Start a task that fails: checkpoints need criu, which Proxmox does not ship."""
    return _checkpoint(call, "vzsuspend", f"lxc-checkpoint -n {call.vmid} -s -D /var/lib/vz/dump")


@api.method("POST", f"{CONTAINER}/status/resume", _POWER)
def resume(call: Call) -> str:
    """Start a task that fails, as suspend does."""
    return _checkpoint(call, "vzresume", f"lxc-checkpoint -n {call.vmid} -r --foreground -D /var/lib/vz/dump")


def _checkpoint(call: Call, type_: str, command: str) -> str:
    cluster, vmid, node = call.cluster, call.vmid, call.node
    runs = cluster.runtime.containers.running(vmid)
    if type_ == "vzsuspend" and not runs:
        raise OperationError(f"CT {vmid} not running")
    if type_ == "vzresume" and runs:
        raise OperationError(f"CT {vmid} already running")

    def work(task: Task) -> None:
        if type_ == "vzsuspend":
            with cluster.configs.lock(vmid, task.say):
                cluster.configs.load(vmid, node).require_unlocked()
        raise OperationError(f"command '{command}' failed: exit code 1")

    return cluster.tasks.start(node, type_, str(vmid), call.user, work)


@api.method(
    "DELETE",
    CONTAINER,
    having("/vms/{vmid}", "VM.Allocate"),
    {"force": FLAG, "purge": FLAG, "destroy-unreferenced-disks": FLAG},
)
def remove(call: Call) -> str:
    """Destroy a container in a task."""
    cluster, vmid, node = call.cluster, call.vmid, call.node
    force, purge = call.flag("force"), call.flag("purge")
    unreferenced = call.flag("destroy-unreferenced-disks")
    config = cluster.configs.load(vmid, node)
    config.require_unprotected(f"can't remove CT {vmid}")
    config.require_unlocked()
    sid = f"ct:{vmid}"
    if sid in cluster.ha.resources and not purge:
        raise OperationError(f"unable to remove CT {vmid} - used in HA resources and purge parameter not set.")
    running = f"unable to destroy CT {vmid} - container is running"
    if cluster.runtime.containers.running(vmid) and not force:
        raise OperationError(running)

    def work(task: Task) -> None:
        with cluster.configs.lock(vmid, task.say):
            fresh = cluster.configs.load(vmid, node)
            fresh.require_unprotected(f"can't remove CT {vmid}")
            fresh.require_unlocked()
            if cluster.runtime.containers.running(vmid):
                if not force:
                    raise OperationError(running)
                task.say(f"forced to stop CT {vmid} before destroying!")
                cluster.runtime.containers.stop(vmid)
                fresh = cluster.configs.load(vmid, node)
            destroy(cluster, vmid, node, fresh, task, unreferenced=unreferenced)
            if purge:
                task.say(f"purging CT {vmid} from related configurations..")
                if sid in cluster.ha.resources:
                    cluster.ha.remove_resource(sid)
                    task.say(f"NOTE: removed CT {vmid} from HA resource configuration.")

    return cluster.tasks.start(node, "vzdestroy", str(vmid), call.user, work)


@api.method("GET", f"{CONTAINER}/interfaces", AUDIT)
def interfaces(call: Call) -> list[dict[str, Any]] | None:
    """Return the network interfaces of a running container."""
    cluster, vmid = call.cluster, call.vmid
    config = cluster.configs.load(vmid, call.node)
    if not cluster.runtime.containers.running(vmid):
        return None
    found = []
    for interface in cluster.runtime.containers.interfaces(vmid, config):
        entry: dict[str, Any] = {
            "name": interface.name,
            "hwaddr": interface.mac,
            "hardware-address": interface.mac,
            "ip-addresses": [
                {"ip-address": address, "ip-address-type": family, "prefix": str(prefix)}
                for family, address, prefix in interface.addresses
            ],
        }
        for family, address, prefix in interface.addresses:
            entry.setdefault(family, f"{address}/{prefix}")
        found.append(entry)
    return found


@api.method(
    "GET",
    f"{CONTAINER}/feature",
    AUDIT,
    {
        "feature": Prop(enum=("snapshot", "clone", "copy")),
        "snapname": Prop(optional=True, format=formats.configid, max_length=40),
    },
)
def feature(call: Call) -> dict[str, int]:
    """Return whether a container, or a snapshot of it, can be snapshotted, cloned or copied."""
    config = call.cluster.configs.load(call.vmid, call.node)
    snapshot = call.text("snapname")
    has = has_feature(call.cluster, str(call.params["feature"]), config.section(snapshot), snapshot)
    return {"hasFeature": int(has)}


@api.method("GET", f"{CONTAINER}/firewall/options", AUDIT)
def firewall_options(call: Call) -> dict[str, str]:
    """Return no options, only the digest of an empty file."""
    return {"digest": hashlib.sha1(b"", usedforsecurity=False).hexdigest()}


@api.method("GET", f"{CONTAINER}/firewall/rules", AUDIT)
def firewall_rules(call: Call) -> list[dict[str, Any]]:
    """Return no rules."""
    return []
