"""API methods: HA resources, rules and status. Proxmox asks for rights on `/` only, and for none on a container."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote

from pvebox.api import formats
from pvebox.api.errors import ApiError, OperationError
from pvebox.api.routes import DIGEST, NODE, Call, api, having
from pvebox.api.schema import FLAG, FormatError, Prop, parse_boolean
from pvebox.cluster.harules import RULE_TYPES, Section, nodes_of, resources_of, rule_errors
from pvebox.guests.config import encode_text

_RESOURCES: Final = "/cluster/ha/resources"
_READ: Final = having("/", "Sys.Audit")
_WRITE: Final = having("/", "Sys.Console")
_COUNT: Final = Prop(type="integer", optional=True, minimum=0)
_COMMENT: Final = Prop(optional=True, max_length=4096)
_NO_GROUPS: Final = "ha groups have been migrated to rules"


# The id of a resource (`ct:100`) or a VMID.
_RESOURCE_ID: Final = formats.matching(
    r"((ct|vm):)?[1-9][0-9]{2,8}", "value does not look like a valid ha resource id: {}"
)
_SID: Final = Prop(format=_RESOURCE_ID)
_RESOURCE_PROPERTIES: Final = {
    "type": Prop(optional=True, enum=("ct", "vm")),
    "state": Prop(optional=True, enum=("started", "stopped", "enabled", "disabled", "ignored")),
    "group": Prop(optional=True, format=formats.configid),
    "max_restart": _COUNT,
    "max_relocate": _COUNT,
    "failback": FLAG,
    "comment": _COMMENT,
}
_FLAGS: Final = frozenset({"failback", "strict", "disable"})
_NUMBERS: Final = _FLAGS | {"max_restart", "max_relocate"}
_STORED: Final = ("state", "max_restart", "max_relocate", "failback", "comment")


@contextmanager
def _failing_as(what: str) -> Iterator[None]:
    """Prefix the errors of a change, as Proxmox does while it holds the lock of the HA config."""
    try:
        yield
    except ApiError as error:
        # Another status than 500 becomes text, and the answer has status 500.
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
    return {**_typed(section), "sid": sid, "digest": call.cluster.ha.digest("resources")}


def _typed(section: Section) -> dict[str, Any]:
    """Return a section as the API shows it: counts and flags are numbers, the comment is decoded."""
    shown: dict[str, Any] = {key: int(value) if key in _NUMBERS else value for key, value in section.items()}
    if "comment" in shown:
        shown["comment"] = unquote(shown["comment"])
    return shown


def _given(call: Call, keys: Iterable[str]) -> Section:
    """Return properties of a call as a section stores them: flags as digits, the comment on one line."""
    found = {key: str(call.params[key]) for key in keys if key in call.params}
    for key in _FLAGS & {*found}:
        found[key] = parse_boolean(found[key]) or "0"
    if "comment" in found:
        found["comment"] = encode_text(found["comment"])
    return found


@api.method("GET", _RESOURCES, _READ, {"type": Prop(optional=True, enum=("ct", "vm"))})
def resources(call: Call) -> list[dict[str, Any]]:
    """Return the HA resources."""
    found = [_resource(call, sid) for sid in call.cluster.ha.resources]
    return [entry for entry in found if call.text("type") in (None, entry["type"])]


@api.method("GET", f"{_RESOURCES}/{{sid}}", _READ, {"sid": _SID})
def resource(call: Call) -> dict[str, Any]:
    """Return an HA resource."""
    return _resource(call, _sid(call))


@api.method("POST", _RESOURCES, _WRITE, {"sid": _SID, **_RESOURCE_PROPERTIES})
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
    with _failing_as("create resource"):
        if sid in cluster.ha.resources:
            raise OperationError(f"resource ID '{sid}' already defined")
        cluster.ha.put_resource(sid, {"type": kind, **_given(call, _STORED)})


@api.method(
    "PUT",
    f"{_RESOURCES}/{{sid}}",
    _WRITE,
    {"sid": _SID, **_RESOURCE_PROPERTIES, "delete": Prop(optional=True), "digest": DIGEST},
)
def change_resource(call: Call) -> None:
    """Change an HA resource."""
    ha, sid = call.cluster.ha, _sid(call)
    if call.text("type") not in (None, sid.partition(":")[0]):
        raise OperationError("types does not match")
    _refuse_group(call)
    with _failing_as("update resource"):
        _require_same(call, "resources")
        if sid not in ha.resources:
            raise OperationError(f"no such resource '{sid}'")
        section = {**ha.resources[sid], **_given(call, _STORED)}
        for key in formats.split_list(call.text("delete") or ""):
            if key not in _STORED:
                raise OperationError(f"no such option '{key}'")
            section.pop(key, None)
        ha.put_resource(sid, section)


def _require_same(call: Call, file: str) -> None:
    """Raise if a client sent another digest than the digest of the file, `resources` or `rules`."""
    digest = call.text("digest")
    if digest is not None and digest != call.cluster.ha.digest(file):
        raise OperationError("detected modified configuration - file changed by other user? Try again.")


@api.method("DELETE", f"{_RESOURCES}/{{sid}}", _WRITE, {"sid": _SID, "purge": FLAG})
def remove_resource(call: Call) -> None:
    """Take a guest out of HA and, unless the caller refuses it, out of the rules."""
    ha, sid = call.cluster.ha, _sid(call)
    if sid not in ha.resources:
        raise OperationError(f"cannot delete service '{sid}', not HA managed!")
    with _failing_as("delete resource"):
        ha.remove_resource(sid, purge=call.flag("purge", default=True))


@api.method("POST", f"{_RESOURCES}/{{sid}}/migrate", _WRITE, {"sid": _SID, "node": NODE})
@api.method("POST", f"{_RESOURCES}/{{sid}}/relocate", _WRITE, {"sid": _SID, "node": NODE})
def request_move(call: Call) -> dict[str, str]:
    """Accept a request to migrate or relocate a resource. It stays queued: no HA manager runs."""
    return {"sid": _sid(call), "requested-node": call.node}


@api.method("GET", "/cluster/ha/groups", _READ)
def groups(call: Call) -> None:
    """Refuse: Proxmox VE 9 has rules instead of groups."""
    raise OperationError(f"cannot index groups: {_NO_GROUPS}")


@api.method(
    "POST",
    "/cluster/ha/groups",
    _WRITE,
    {
        "group": Prop(format=formats.configid),
        "nodes": Prop(),
        "type": Prop(optional=True),
        "nofailback": FLAG,
        "restricted": FLAG,
        "comment": _COMMENT,
    },
)
def add_group(call: Call) -> None:
    """Refuse: Proxmox VE 9 has rules instead of groups."""
    raise OperationError(f"cannot create group: {_NO_GROUPS}")


@api.method("GET", "/cluster/ha/status/current", _READ)
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
                **{key: text for key, text in _typed(section).items() if key == "comment"},
            }
        )
    return found


@api.method("GET", "/cluster/ha/status/manager_status", _READ)
def manager_status(call: Call) -> dict[str, Any]:
    """Return the status of the HA manager, which does not run, and the quorum."""
    cluster = call.cluster
    quorum = {"node": cluster.local_node, "quorate": str(int(cluster.members.quorate))}
    return {"manager_status": {}, "quorum": quorum}


_RULES: Final = "/cluster/ha/rules"


def _check_node_priority(text: str) -> None:
    node, colon, priority = text.partition(":")
    formats.node(node)
    if colon and not re.fullmatch(r"[0-9]{1,4}", priority):
        raise FormatError(f"unable to parse node priority '{text}'\n")


_RULE_PROPERTIES: Final = {
    "comment": _COMMENT,
    "disable": FLAG,
    "nodes": Prop(optional=True, format=formats.list_of(_check_node_priority)),
    "strict": FLAG,
    "affinity": Prop(optional=True, enum=("positive", "negative")),
}


def _rule(call: Call, name: str) -> dict[str, Any]:
    ha = call.cluster.ha
    section = ha.rules.get(name)
    if section is None:
        raise OperationError(f"no such ha rule '{name}'")
    entry = {**_typed(section), "rule": name, "resources": ",".join(resources_of(section))}
    entry |= {"order": [*ha.rules].index(name) + 1, "digest": ha.digest("rules")}
    entry.setdefault("affinity", "positive")
    errors = rule_errors(ha.rules, call.cluster.nodes)
    return {**entry, "errors": errors[name]} if name in errors else entry


@api.method("GET", _RULES, _READ, {"type": Prop(optional=True, enum=RULE_TYPES), "resource": Prop(optional=True)})
def rules(call: Call) -> list[dict[str, Any]]:
    """Return the HA rules, of one type or for one resource if asked."""
    wanted = call.text("resource")
    found = [
        _rule(call, name)
        for name, section in call.cluster.ha.rules.items()
        if wanted is None or wanted in resources_of(section)
    ]
    return [entry for entry in found if call.text("type") in (None, entry["type"])]


@api.method("GET", f"{_RULES}/{{rule}}", _READ, {"rule": Prop(format=formats.configid)})
def rule(call: Call) -> dict[str, Any]:
    """Return an HA rule."""
    return _rule(call, str(call.params["rule"]))


@api.method(
    "POST",
    _RULES,
    _WRITE,
    {
        "rule": Prop(format=formats.configid),
        "type": Prop(enum=RULE_TYPES),
        "resources": Prop(format=formats.list_of(_RESOURCE_ID)),
        **_RULE_PROPERTIES,
    },
)
def add_rule(call: Call) -> None:
    """Add an HA rule."""
    ha, name = call.cluster.ha, str(call.params["rule"])
    call.cluster.members.require_quorum()
    section = _changed_rule(call, {"type": str(call.params["type"])})
    with _failing_as("create ha rule"):
        if name in ha.rules:
            raise OperationError(f"HA rule '{name}' already defined")
        _require_usable(call, name, section)
        ha.put_rule(name, section)


@api.method(
    "PUT",
    f"{_RULES}/{{rule}}",
    _WRITE,
    {
        "rule": Prop(format=formats.configid),
        "type": Prop(enum=RULE_TYPES),
        "resources": Prop(optional=True, format=formats.list_of(_RESOURCE_ID)),
        **_RULE_PROPERTIES,
        "delete": Prop(optional=True),
        "digest": DIGEST,
    },
)
def change_rule(call: Call) -> None:
    """Change an HA rule."""
    ha, name = call.cluster.ha, str(call.params["rule"])
    with _failing_as("update HA rules"):
        _require_same(call, "rules")
        if name not in ha.rules:
            raise OperationError(f"HA rule '{name}' does not exist")
        section = _changed_rule(call, ha.rules[name])
        for key in formats.split_list(call.text("delete") or ""):
            section.pop(key, None)
        _require_usable(call, name, section)
        ha.put_rule(name, section)


@api.method("DELETE", f"{_RULES}/{{rule}}", _WRITE, {"rule": Prop(format=formats.configid)})
def remove_rule(call: Call) -> None:
    """Remove an HA rule. As in Proxmox, without an error if it does not exist."""
    with _failing_as("delete ha rule"):
        call.cluster.ha.remove_rule(str(call.params["rule"]))


def _changed_rule(call: Call, old: Section) -> Section:
    """Return a rule with the properties of a call. Only node affinity names nodes."""
    located = old["type"] == "node-affinity"
    for key in ("nodes", "strict"):
        if key in call.params and not located:
            raise OperationError(f"unexpected property '{key}'")
    section = {**old, **_given(call, ("comment", "disable", "affinity", "strict"))}
    for key in ("resources", "nodes"):
        if key in call.params:
            section[key] = ",".join(sorted(formats.split_list(str(call.params[key]))))
    required = "nodes" if located else "affinity"
    if required not in section:
        raise OperationError(f"missing value for required option '{required}'")
    return section


class _InvalidRuleError(ApiError):
    status = 400


def _require_usable(call: Call, name: str, section: Section) -> None:
    """Raise unless the rule's resources and nodes exist, and the rule does not contradict another one."""
    cluster = call.cluster
    unmanaged = [sid for sid in resources_of(section) if sid not in cluster.ha.resources]
    if unmanaged:
        raise OperationError(f"cannot use unmanaged resource(s) {', '.join(unmanaged)}.")
    missing = [node for node in nodes_of(section) if node not in cluster.nodes]
    if missing:
        raise OperationError(f"cannot use non-existant node(s) {', '.join(missing)}.")
    errors = rule_errors({**cluster.ha.rules, name: section}, cluster.nodes).get(name, {})
    if errors:
        raise _InvalidRuleError(f"Rule '{name}' is invalid.", {key: ", ".join(texts) for key, texts in errors.items()})
