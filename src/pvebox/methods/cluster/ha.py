"""API methods: HA resources and status. Proxmox asks for rights on `/` only, and for none on a container."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote

from pvebox.api import formats
from pvebox.api.errors import ApiError, OperationError
from pvebox.api.routes import DIGEST, NODE, Call, api, having
from pvebox.api.schema import FormatError, Prop, parse_boolean
from pvebox.cluster.harules import Section
from pvebox.guests.config import encode_text

_RESOURCES: Final = "/cluster/ha/resources"
READ: Final = having("/", "Sys.Audit")
WRITE: Final = having("/", "Sys.Console")
FLAG: Final = Prop(type="boolean", optional=True)
_COUNT: Final = Prop(type="integer", optional=True, minimum=0)
COMMENT: Final = Prop(optional=True, max_length=4096)
_NO_GROUPS: Final = "ha groups have been migrated to rules"


def check_resource_id(text: str) -> None:
    """Raise unless the text is the id of a resource (`ct:100`) or a VMID."""
    if not re.fullmatch(r"((ct|vm):)?[1-9][0-9]{2,8}", text):
        raise FormatError(f"value does not look like a valid ha resource id: {text}\n")


_SID: Final = Prop(format=check_resource_id)
_RESOURCE_PROPERTIES: Final = {
    "type": Prop(optional=True, enum=("ct", "vm")),
    "state": Prop(optional=True, enum=("started", "stopped", "enabled", "disabled", "ignored")),
    "group": Prop(optional=True, format=formats.configid),
    "max_restart": _COUNT,
    "max_relocate": _COUNT,
    "failback": FLAG,
    "comment": COMMENT,
}
_FLAGS: Final = frozenset({"failback", "strict", "disable"})
_NUMBERS: Final = _FLAGS | {"max_restart", "max_relocate"}
_STORED: Final = ("state", "max_restart", "max_relocate", "failback", "comment")


@contextmanager
def failing_as(what: str) -> Iterator[None]:
    """Prefix the errors of a change, as Proxmox does while it holds the lock of the HA config."""
    try:
        yield
    except ApiError as error:
        # An error with a status of its own becomes text, and the answer has status 500.
        status = "" if error.status == 500 else f"{error.status} "
        details = "".join(f"{key}: {text}\n" for key, text in error.errors.items())
        raise OperationError(f"{what} failed: {status}{error.message}{details}") from None


def _sid(call: Call) -> str:
    """Return the id of the resource that a call names. A bare VMID is resolved by the kind of the guest."""
    text = str(call.params["sid"])
    if ":" in text:
        return text
    if not call.cluster.configs.exists(int(text)):
        raise OperationError(f"unable do add resource - VM/CT {text} does not exist")
    return f"ct:{text}"


def _refuse_group(call: Call) -> None:
    if call.text("group") is not None:
        raise OperationError(f"invalid parameter 'group': {_NO_GROUPS}")


def _resource(call: Call, sid: str) -> dict[str, Any]:
    section = call.cluster.ha.resources.get(sid)
    if section is None:
        raise OperationError(f"no such resource '{sid}'")
    return {**typed(section), "sid": sid, "digest": call.cluster.ha.digest("resources")}


def typed(section: Section) -> dict[str, Any]:
    """Return a section as the API shows it: counts and flags are numbers, the comment is decoded."""
    shown: dict[str, Any] = {key: int(value) if key in _NUMBERS else value for key, value in section.items()}
    if "comment" in shown:
        shown["comment"] = unquote(shown["comment"])
    return shown


def given(call: Call, keys: Iterable[str]) -> Section:
    """Return properties of a call as a section stores them: flags as digits, the comment on one line."""
    found = {key: str(call.params[key]) for key in keys if key in call.params}
    for key in _FLAGS & {*found}:
        found[key] = parse_boolean(found[key]) or "0"
    if "comment" in found:
        found["comment"] = encode_text(found["comment"])
    return found


@api.method("GET", _RESOURCES, READ, {"type": Prop(optional=True, enum=("ct", "vm"))})
def resources(call: Call) -> list[dict[str, Any]]:
    """Return the HA resources."""
    found = [_resource(call, sid) for sid in call.cluster.ha.resources]
    return [entry for entry in found if call.text("type") in (None, entry["type"])]


@api.method("GET", f"{_RESOURCES}/{{sid}}", READ, {"sid": _SID})
def resource(call: Call) -> dict[str, Any]:
    """Return an HA resource."""
    return _resource(call, _sid(call))


@api.method("POST", _RESOURCES, WRITE, {"sid": _SID, **_RESOURCE_PROPERTIES})
def add_resource(call: Call) -> None:
    """Put a guest under HA."""
    cluster = call.cluster
    cluster.members.require_quorum()
    sid = _sid(call)
    kind, _, name = sid.partition(":")
    if call.text("type") not in (None, kind):
        raise OperationError("types does not match")
    _refuse_group(call)
    if kind != "ct" or not cluster.configs.exists(int(name)):
        raise OperationError(f"resource '{sid}' does not exist in cluster")
    with failing_as("create resource"):
        if sid in cluster.ha.resources:
            raise OperationError(f"resource ID '{sid}' already defined")
        cluster.ha.put_resource(sid, {"type": kind, **given(call, _STORED)})


@api.method(
    "PUT",
    f"{_RESOURCES}/{{sid}}",
    WRITE,
    {"sid": _SID, **_RESOURCE_PROPERTIES, "delete": Prop(optional=True), "digest": DIGEST},
)
def change_resource(call: Call) -> None:
    """Change an HA resource."""
    ha, sid = call.cluster.ha, _sid(call)
    if call.text("type") not in (None, sid.partition(":")[0]):
        raise OperationError("types does not match")
    _refuse_group(call)
    with failing_as("update resource"):
        require_same(call, "resources")
        if sid not in ha.resources:
            raise OperationError(f"no such resource '{sid}'")
        section = {**ha.resources[sid], **given(call, _STORED)}
        for key in formats.split_list(call.text("delete") or ""):
            if key not in _STORED:
                raise OperationError(f"no such option '{key}'")
            section.pop(key, None)
        ha.put_resource(sid, section)


def require_same(call: Call, file: str) -> None:
    """Raise if the digest that a client sent is not that of the file: `resources` or `rules`."""
    digest = call.text("digest")
    if digest is not None and digest != call.cluster.ha.digest(file):
        raise OperationError("detected modified configuration - file changed by other user? Try again.")


@api.method("DELETE", f"{_RESOURCES}/{{sid}}", WRITE, {"sid": _SID, "purge": FLAG})
def remove_resource(call: Call) -> None:
    """Take a guest out of HA and, unless the caller refuses it, out of the rules."""
    ha, sid = call.cluster.ha, _sid(call)
    if sid not in ha.resources:
        raise OperationError(f"cannot delete service '{sid}', not HA managed!")
    with failing_as("delete resource"):
        ha.remove_resource(sid, purge=str(call.params.get("purge", "1")) == "1")


@api.method("POST", f"{_RESOURCES}/{{sid}}/migrate", WRITE, {"sid": _SID, "node": NODE})
def request_migration(call: Call) -> dict[str, str]:
    """Accept a request to migrate a resource. It stays queued: no HA manager runs."""
    return {"sid": _sid(call), "requested-node": call.node}


@api.method("POST", f"{_RESOURCES}/{{sid}}/relocate", WRITE, {"sid": _SID, "node": NODE})
def request_relocation(call: Call) -> dict[str, str]:
    """Accept a request to relocate a resource. It stays queued: no HA manager runs."""
    return {"sid": _sid(call), "requested-node": call.node}


@api.method("GET", "/cluster/ha/groups", READ)
def groups(call: Call) -> None:
    """Refuse: Proxmox VE 9 has rules instead of groups."""
    raise OperationError(f"cannot index groups: {_NO_GROUPS}")


@api.method(
    "POST",
    "/cluster/ha/groups",
    WRITE,
    {
        "group": Prop(format=formats.configid),
        "nodes": Prop(),
        "type": Prop(optional=True),
        "nofailback": FLAG,
        "restricted": FLAG,
        "comment": COMMENT,
    },
)
def add_group(call: Call) -> None:
    """Refuse: Proxmox VE 9 has rules instead of groups."""
    raise OperationError(f"cannot create group: {_NO_GROUPS}")


@api.method("GET", "/cluster/ha/status/current", READ)
def status(call: Call) -> list[dict[str, Any]]:
    """Return the status of quorum, fencing and resources. All resources are queued: no HA manager runs."""
    cluster = call.cluster
    here, quorate = cluster.local_node, cluster.members.quorate
    said = "OK" if quorate else f"No quorum on node '{here}'!"
    found: list[dict[str, Any]] = [
        {"id": "quorum", "type": "quorum", "node": here, "status": said, "quorate": int(quorate)},
        {
            "id": "fencing",
            "type": "fencing",
            "node": here,
            "status": "standby (CRM watchdog standby)",
            "armed-state": "standby",
        },
    ]
    for sid, section in sorted(cluster.ha.resources.items()):
        node = cluster.configs.node_of(int(sid.partition(":")[2])) or ""
        state = "ignored" if section.get("state") == "ignored" else "queued"
        found.append(
            {
                "id": f"service:{sid}",
                "type": "service",
                "sid": sid,
                "node": node,
                "state": state,
                "status": f"{sid} ({node}, {state})",
                "request_state": section.get("state", "started"),
                "max_restart": int(section.get("max_restart", "1")),
                "max_relocate": int(section.get("max_relocate", "1")),
                "failback": int(section.get("failback", "1")),
                **{key: text for key, text in typed(section).items() if key == "comment"},
            }
        )
    return found


@api.method("GET", "/cluster/ha/status/manager_status", READ)
def manager_status(call: Call) -> dict[str, Any]:
    """Return the status of the HA manager, which does not run, and the quorum."""
    cluster = call.cluster
    quorum = {"node": cluster.local_node, "quorate": str(int(cluster.members.quorate))}
    return {"manager_status": {}, "quorum": quorum}
