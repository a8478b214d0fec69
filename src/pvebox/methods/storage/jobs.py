"""API methods: scheduled backup jobs. The sandbox keeps them, and does not run them."""

from __future__ import annotations

import uuid
from typing import Any, Final

from pvebox.api import formats
from pvebox.api.errors import OperationError, ParameterError, PrivilegeError
from pvebox.api.routes import NODE, Call, api, having
from pvebox.api.schema import FLAG, FormatError, Prop, Properties
from pvebox.backups import calendar
from pvebox.backups.prune import RETENTION_PARTS
from pvebox.methods.storage.backups import VZDUMP_PARAMETERS

_JOB: Final = "/cluster/backup/{id}"
_ID: Final = Prop(max_length=50)
_ALL_DAYS: Final = "mon,tue,wed,thu,fri,sat,sun"
_NUMBERS: Final = frozenset({"all", "enabled", "protected", "quiet", "remove", "stdexcludes", "stop", "repeat-missed"})


def _weekday(text: str) -> None:
    if text not in _ALL_DAYS.split(","):
        raise FormatError(f"invalid day '{text}'\n")


# Unlike a backup call, a job names its node, and Proxmox does not check the parts of some options.
_VZDUMP: Final[Properties] = {
    **{key: prop for key, prop in VZDUMP_PARAMETERS.items() if key not in ("job-id", "stdout")},
    **dict.fromkeys(("exclude-path", "fleecing", "performance"), Prop(optional=True)),
    "node": Prop(optional=True, format=NODE.format),
    "prune-backups": Prop(optional=True, format=RETENTION_PARTS),
}
_SCHEDULED: Final[Properties] = {
    "schedule": Prop(optional=True, format=calendar.parse, max_length=128),
    "starttime": Prop(optional=True, pattern=r"\d{1,2}:\d{1,2}"),
    "dow": Prop(optional=True, format=formats.list_of(_weekday), requires="starttime"),
    "enabled": FLAG,
    "repeat-missed": FLAG,
    "comment": Prop(optional=True, max_length=512),
}
_AUDIT: Final = having("/", "Sys.Audit")
_MODIFY: Final = having("/", "Sys.Modify")

Job = dict[str, Any]


@api.method("GET", "/cluster/backup", _AUDIT)
def jobs(call: Call) -> list[Job]:
    """Return the backup jobs with the times of their next runs."""
    found = []
    for name, job in call.cluster.jobs.items():
        event = calendar.parse(job["schedule"]) if job.get("schedule") else None
        next_run = event.next_after(call.cluster.now()) if event else None
        found.append({"id": name, **job, **({"next-run": next_run} if next_run is not None else {})})
    return found


@api.method("GET", _JOB, _AUDIT, {"id": _ID})
def job(call: Call) -> Job:
    """Return one backup job."""
    name = str(call.params["id"])
    return {"id": name, **_existing(call)}


def _existing(call: Call) -> Job:
    name = str(call.params["id"])
    found = call.cluster.jobs.get(name)
    if found is None:
        raise ParameterError({"id": f"No such job '{name}'"})
    return found


@api.method("POST", "/cluster/backup", _MODIFY, {**_VZDUMP, **_SCHEDULED, "id": Prop(optional=True, max_length=50)})
def create_job(call: Call) -> None:
    """Create a backup job."""
    given = _given(call)
    _require_options(call, given)
    if pool := given.get("pool"):
        if pool not in call.cluster.access.pools:
            raise PrivilegeError(f"pool '{pool}' does not exist")
        call.require(f"/pool/{pool}", "VM.Backup")
    _set_schedule(given, required=True)
    name = call.text("id") or str(uuid.uuid4())
    if name in call.cluster.jobs:
        raise OperationError(f"Job '{name}' already exists")
    made = {"type": "vzdump", "enabled": 1, **given}
    _verify(made)
    call.cluster.jobs = {**call.cluster.jobs, name: made}
    call.cluster.settings_changed()


@api.method(
    "PUT",
    _JOB,
    _MODIFY,
    {**_VZDUMP, **_SCHEDULED, "id": _ID, "delete": Prop(optional=True, format=formats.list_of(formats.configid))},
)
def change_job(call: Call) -> None:
    """Change a backup job."""
    given = _given(call)
    _require_options(call, given)
    _set_schedule(given, required=False)
    _check_conflicts(given)
    changed = {**_existing(call)}
    for key in formats.split_list(call.text("delete") or ""):
        if key not in _VZDUMP and key not in ("comment", "repeat-missed", "schedule"):
            raise ParameterError({"delete": f"unknown option '{key}'"})
        changed.pop(key, None)
    changed |= given
    if "exclude" in changed and "pool" not in changed:
        changed["all"] = 1
    superseded: tuple[str, ...] = ()
    if "vmid" in given:
        superseded = ("all", "exclude", "pool")
    elif given.get("all"):
        superseded = ("vmid", "pool")
    elif changed.get("pool"):
        superseded = ("vmid", "all", "exclude")
    changed = {key: value for key, value in changed.items() if key not in superseded}
    _verify(changed)
    call.cluster.jobs = {**call.cluster.jobs, str(call.params["id"]): changed}
    call.cluster.settings_changed()


@api.method("DELETE", _JOB, _MODIFY, {"id": _ID})
def delete_job(call: Call) -> None:
    """Delete a backup job."""
    _existing(call)
    call.cluster.jobs = {name: job for name, job in call.cluster.jobs.items() if name != call.params["id"]}
    call.cluster.settings_changed()


def _given(call: Call) -> Job:
    """Return the settings in a request, flags as numbers."""
    settings = {key: value for key, value in call.params.items() if key not in ("id", "delete")}
    return {key: int(value) if key in _NUMBERS else str(value) for key, value in settings.items()}


def _require_options(call: Call, given: Job) -> None:
    if call.is_root:
        return
    for key in ("tmpdir", "dumpdir", "script"):
        if key in given:
            raise ParameterError({key: "Only root may set this option."})
    if {"bwlimit", "ionice", "performance"} & set(given):
        call.require("/", "Sys.Modify")


def _set_schedule(given: Job, *, required: bool) -> None:
    """Replace the older form of a schedule, a start time and weekdays, by a calendar event."""
    if "schedule" in given:
        if "starttime" in given:
            raise ParameterError({"starttime": "'starttime' and 'schedule' cannot both be set"})
    elif "starttime" in given:
        days = ",".join(formats.split_list(given.pop("dow", _ALL_DAYS)))
        start = given.pop("starttime")
        given["schedule"] = start if days == _ALL_DAYS else f"{days} {start}"
    elif required:
        raise ParameterError({"schedule": "neither 'starttime' nor 'schedule' were set"})


def _check_conflicts(settings: Job) -> None:
    for key in ("all", "exclude", "pool"):
        if settings.get(key) and settings.get("vmid"):
            raise ParameterError({key: "option conflicts with option 'vmid'"})


def _verify(settings: Job) -> None:
    _check_conflicts(settings)
    if "exclude" in settings and not settings.get("pool"):
        settings["all"] = 1
    if not any(settings.get(key) for key in ("all", "stop", "pool", "vmid")):
        raise ParameterError({"vmid": "property is missing"})
