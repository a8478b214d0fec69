"""API methods: back up containers (vzdump), prune backups, and read from a backup."""

from __future__ import annotations

import re
from typing import Any, Final

from pvebox.access.accounts import ROOT, existing
from pvebox.api import formats
from pvebox.api.errors import OperationError, ParameterError
from pvebox.api.routes import Call, anybody, api, having
from pvebox.api.schema import FLAG, Prop, Properties, parse_property_string
from pvebox.backups import prune
from pvebox.backups.order import DEFAULT_STORAGE, JobOrder, require_valid_template
from pvebox.backups.prune import Retention, parse_retention, print_retention
from pvebox.backups.vzdump import run_job, storage_for_backups
from pvebox.cluster.tasks import Task
from pvebox.guests.disks import check_volume_access
from pvebox.guests.storage import parse_volume_id

_VZDUMP: Final = "/nodes/{node}/vzdump"
_STORAGE: Final = "/nodes/{node}/storage/{storage}"
_SUFFIXES: Final = {"0": ".tar", "1": ".tar.lzo", "gzip": ".tar.gz", "lzo": ".tar.lzo", "zstd": ".tar.zst"}
_TEXT = Prop(optional=True)
_INTEGER = Prop(type="integer", optional=True)
_NUMBER = Prop(type="integer", optional=True, minimum=0)
_VMIDS = Prop(optional=True, format=formats.list_of(formats.vmid))
_FLEECING: Final = {
    "enabled": Prop(type="boolean", optional=True, default_key=True),
    "storage": Prop(optional=True, format=formats.storage_id),
}
_PERFORMANCE: Final = {
    "max-workers": Prop(type="integer", optional=True, minimum=1, maximum=256),
    "pbs-entries-max": Prop(type="integer", optional=True, minimum=1),
}
VZDUMP_PARAMETERS: Final[Properties] = {
    "vmid": _VMIDS,
    "all": FLAG,
    "bwlimit": _NUMBER,
    "compress": Prop(optional=True, enum=tuple(_SUFFIXES)),
    "dumpdir": _TEXT,
    "exclude": _VMIDS,
    "exclude-path": Prop(type="array", optional=True),
    "fleecing": Prop(optional=True, format=_FLEECING),
    "ionice": Prop(type="integer", optional=True, minimum=0, maximum=8),
    "job-id": Prop(optional=True, max_length=50, pattern=r"\S+"),
    "lockwait": _NUMBER,
    "mailnotification": Prop(optional=True, enum=("always", "failure")),
    "mailto": _TEXT,
    "mode": Prop(optional=True, enum=("snapshot", "suspend", "stop")),
    "notes-template": Prop(optional=True, max_length=1024, requires="storage"),
    "notification-mode": Prop(optional=True, enum=("auto", "legacy-sendmail", "notification-system")),
    "pbs-change-detection-mode": Prop(optional=True, enum=("legacy", "data", "metadata")),
    "performance": Prop(optional=True, format=_PERFORMANCE),
    "pigz": _INTEGER,
    "pool": _TEXT,
    "protected": Prop(type="boolean", optional=True, requires="storage"),
    "prune-backups": prune.RETENTION,
    "quiet": FLAG,
    "remove": FLAG,
    "script": _TEXT,
    "stdexcludes": FLAG,
    "stdout": FLAG,
    "stop": FLAG,
    "stopwait": _NUMBER,
    "storage": Prop(optional=True, format=formats.storage_id),
    "tmpdir": _TEXT,
    "zstd": _INTEGER,
}
_PRUNE_PARAMETERS: Final = {
    "prune-backups": prune.RETENTION,
    "type": Prop(optional=True, enum=("qemu", "lxc")),
    "vmid": Prop(type="integer", optional=True, format=formats.vmid),
}
_FILE: Final = {"volume": Prop(), "filepath": Prop()}
_ROOT_ONLY: Final = ("tmpdir", "dumpdir", "script", "job-id")
_TUNING: Final = ("bwlimit", "ionice", "performance")
_PLAIN_WORD = re.compile(r"[\w!%+,\-./:@^]+", re.ASCII)


@api.method("POST", _VZDUMP, anybody, VZDUMP_PARAMETERS)
def vzdump(call: Call) -> str:
    """Back up containers in a task, and return its UPID, or `OK` if no guest is on this node."""
    cluster, node = call.cluster, call.node
    if call.flag("stdout"):
        raise ParameterError({"stdout": "option is only allowed on the command line interface."})
    _require_rights(call)
    _require_consistent(call)
    vmids = _guests(call)
    if call.flag("stop"):
        cluster.backup_locks[node].stop_holder()
        if not vmids:
            return "OK"
    if not vmids and not call.flag("all"):
        return "OK"
    call.require(f"/storage/{_storage(call)}", "Datastore.AllocateSpace")
    order = _order(call, vmids)

    def work(task: Task) -> None:
        run_job(cluster, order, task)

    return cluster.tasks.start(node, "vzdump", str(vmids[0]) if len(vmids) == 1 else "", call.user, work)


def _storage(call: Call) -> str:
    return call.text("storage") or DEFAULT_STORAGE


def _require_rights(call: Call) -> None:
    if call.user == ROOT:
        return
    for key in _ROOT_ONLY:
        if key in call.params:
            raise ParameterError({key: "Only root may set this option."})
    if any(key in call.params for key in _TUNING):
        call.require("/", "Sys.Modify")
    fleecing = parse_property_string(call.text("fleecing") or "", _FLEECING).get("storage")
    if fleecing is not None:
        call.require(f"/storage/{fleecing}", "Datastore.AllocateSpace")
    if "prune-backups" in call.params:
        call.require(f"/storage/{_storage(call)}", "Datastore.Allocate")
    if call.flag("stop"):
        call.require(f"/nodes/{call.node}", "Sys.Modify")


def _require_consistent(call: Call) -> None:
    if call.text("vmid"):
        for key in ("all", "exclude", "pool"):
            if call.flag(key) if key == "all" else call.text(key):
                raise ParameterError({key: "option conflicts with option 'vmid'"})
    template = call.text("notes-template")
    if template:
        require_valid_template(template)
    if call.text("exclude") is not None and not call.text("pool"):
        call.params["all"] = "1"
    if not (call.flag("all") or call.flag("stop") or call.text("pool") or call.text("vmid")):
        raise ParameterError({"vmid": "property is missing"})


def _guests(call: Call) -> list[int]:
    """Return the guests to back up: the guests of this node, and listed guests that do not exist."""
    cluster, pool, listed = call.cluster, call.text("pool"), call.text("vmid")
    if pool:
        vmids = [vmid for vmid in existing(cluster.access.pools, "pool", pool).vmids if cluster.configs.exists(vmid)]
    elif listed:
        vmids = [int(vmid) for vmid in formats.split_list(listed)]
    elif call.flag("all"):
        excluded = {int(vmid) for vmid in formats.split_list(call.text("exclude") or "")}
        vmids = [vmid for vmid in cluster.configs.vmids() if vmid not in excluded]
    else:
        vmids = []
    return sorted(vmid for vmid in vmids if cluster.configs.node_of(vmid) in (None, call.node))


def _order(call: Call, vmids: list[int]) -> JobOrder:
    def number(key: str, default: int) -> int:
        return int(call.params.get(key, default))

    return JobOrder(
        node=call.node,
        user=call.user,
        vmids=vmids,
        command_line=_command_line(call),
        storage=_storage(call),
        mode=call.text("mode") or "snapshot",
        suffix=_SUFFIXES[call.text("compress") or "0"],
        all=call.flag("all"),
        lock_minutes=number("lockwait", 180),
        stop_minutes=number("stopwait", 10),
        ionice=number("ionice", 7),
        bwlimit=number("bwlimit", 0),
        remove=call.flag("remove", default=True),
        retention=_retention(call),
        notes_template=call.text("notes-template") or "",
        protected=call.flag("protected"),
        exclude=_list(call.params.get("exclude-path", "")),
        standard_excludes=call.flag("stdexcludes", default=True),
    )


def _retention(call: Call) -> Retention | None:
    text = call.text("prune-backups")
    return None if text is None else parse_retention(text)


def _list(value: Any) -> list[str]:
    entries = value if isinstance(value, list) else str(value).split("\0")
    return [str(entry) for entry in entries if str(entry)]


def _command_line(call: Call) -> str:
    """Return the call as a command line, as the job's log shows it."""
    words = ["vzdump", *formats.split_list(call.text("vmid") or "")]
    for key, value in call.params.items():
        if key in ("vmid", "stdout"):
            continue
        retention = _retention(call) if key == "prune-backups" else None
        values = _list(value) if retention is None else [print_retention(retention)]
        for each in values:
            words += [f"--{key}", each if _PLAIN_WORD.fullmatch(each) else "'" + each.replace("'", "'\\''") + "'"]
    return " ".join(words)


@api.method("GET", f"{_VZDUMP}/defaults", anybody, {"storage": Prop(optional=True, format=formats.storage_id)})
def defaults(call: Call) -> dict[str, Any]:
    """Return the values of the parameters that a backup call leaves out."""
    storage_id = _storage(call)
    call.require(f"/storage/{storage_id}", "Datastore.Audit", "Datastore.AllocateSpace", any_of=True)
    storage = storage_for_backups(call.cluster, storage_id)
    values: dict[str, Any] = {
        **{"all": 0, "bwlimit": 0, "compress": "0", "fleecing": {"enabled": 0}, "lockwait": 180},
        **{"mailnotification": "always", "mode": "snapshot", "notification-mode": "auto"},
        **{"performance": {"max-workers": 16, "pbs-entries-max": 1 << 20}, "pigz": 0},
        **{"prune-backups": print_retention(parse_retention(storage.prune_backups or "keep-all=1"))},
        **{"quiet": 0, "remove": 1, "stdexcludes": 1, "stop": 0, "stopwait": 10, "storage": storage_id, "zstd": 1},
    }
    if call.allows(f"/nodes/{call.node}", "Sys.Audit"):
        values |= {"dumpdir": f"{storage.path}/dump", "ionice": 7}
    return values


@api.method("GET", f"{_VZDUMP}/extractconfig", anybody, {"volume": Prop()})
def extract_config(call: Call) -> str:
    """Return the text of the config in a backup."""
    cluster, volid = call.cluster, str(call.params["volume"])
    check_volume_access(call, -1, volid, None)
    storage, ref = cluster.locate(volid, call.node)
    owner = storage.parse(ref.name).owner
    call.require(f"/vms/{owner or ''}", "VM.Backup")
    if ref.name not in cluster.runtime.files(call.node, storage.id):
        raise OperationError(f"volume '{volid}' does not exist")
    if not re.match(r"backup/vzdump-(lxc|openvz|qemu)-", ref.name):
        raise OperationError(f"ERROR: couldn't determine archive info from '{storage.device(ref.name)}'")
    text = cluster.runtime.archived_config(call.node, storage.id, ref.name)
    if text is None:
        raise OperationError("ERROR: archive contains no configuration file")
    return text


@api.method(
    "GET",
    f"{_STORAGE}/prunebackups",
    having("/storage/{storage}", "Datastore.Audit", "Datastore.AllocateSpace", any_of=True),
    _PRUNE_PARAMETERS,
)
def preview(call: Call) -> list[dict[str, Any]]:
    """Return the backups of a storage and whether pruning would keep or remove them."""
    storage = call.cluster.storage(str(call.params["storage"]))
    keep = prune.retention_for(storage, call.text("prune-backups"))
    entries = []
    vmid = call.vmid if "vmid" in call.params else None
    for entry in prune.marked(call.cluster, call.node, storage, keep, vmid, call.text("type")):
        backup = entry.backup
        shown: dict[str, Any] = {"volid": backup.volid, "ctime": backup.ctime, "type": backup.kind, "mark": entry.mark}
        entries.append(shown if backup.vmid is None else {**shown, "vmid": backup.vmid})
    return entries


@api.method("DELETE", f"{_STORAGE}/prunebackups", anybody, _PRUNE_PARAMETERS)
def prune_backups(call: Call) -> str:
    """Prune the backups of a storage, or only the backups of one guest, in a task."""
    cluster, node, storage_id = call.cluster, call.node, str(call.params["storage"])
    vmid = call.vmid if "vmid" in call.params else None
    if vmid is None:
        call.require(f"/storage/{storage_id}", "Datastore.Allocate")
    else:
        call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")
        call.require(f"/vms/{vmid}", "VM.Backup")
    text, kind = call.text("prune-backups"), call.text("type")

    def work(task: Task) -> None:
        storage = cluster.storage(storage_id)
        prune.prune(cluster, node, storage, prune.retention_for(storage, text), vmid, kind, task.say)

    id_ = storage_id if vmid is None else f"{vmid}@{storage_id}"
    return cluster.tasks.start(node, "prunebackups", id_, call.user, work)


@api.method("GET", f"{_STORAGE}/file-restore/list", anybody, _FILE)
@api.method("GET", f"{_STORAGE}/file-restore/download", anybody, _FILE)
def restore_file(call: Call) -> None:
    """Raise Proxmox's error: only a Proxmox Backup Server can list and restore the files of a backup."""
    storage_id, volume = str(call.params["storage"]), str(call.params["volume"])
    parts = parse_volume_id(volume)
    if parts is not None and parts[0] != storage_id:
        raise ParameterError({"volume": f"storage ID mismatch ({parts[0]} != {storage_id})."})
    if parts is None:
        volume = f"{storage_id}:{volume if volume.startswith('backup/') else f'backup/{volume}'}"
    call.cluster.storage(storage_id)
    check_volume_access(call, -1, volume, "backup")
    raise ParameterError({"storage": "Only PBS storages supported for file-restore."})
