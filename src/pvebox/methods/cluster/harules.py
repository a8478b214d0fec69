"""API methods: HA rules, which place resources on nodes, together or apart."""

from __future__ import annotations

import re
from typing import Any, Final

from pvebox.api import formats
from pvebox.api.errors import ApiError, OperationError
from pvebox.api.routes import DIGEST, Call, api
from pvebox.api.schema import FormatError, Prop
from pvebox.cluster.harules import RULE_TYPES, Section, nodes_of, resources_of, rule_errors
from pvebox.methods.cluster.ha import (
    COMMENT,
    FLAG,
    READ,
    WRITE,
    check_resource_id,
    failing_as,
    given,
    require_same,
    typed,
)

_RULES: Final = "/cluster/ha/rules"


def _check_node_priority(text: str) -> None:
    node, colon, priority = text.partition(":")
    formats.node(node)
    if colon and not re.fullmatch(r"[0-9]{1,4}", priority):
        raise FormatError(f"unable to parse node priority '{text}'\n")


_RULE_PROPERTIES: Final = {
    "comment": COMMENT,
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
    entry = {**typed(section), "rule": name, "resources": ",".join(resources_of(section))}
    entry |= {"order": [*ha.rules].index(name) + 1, "digest": ha.digest("rules")}
    entry.setdefault("affinity", "positive")
    errors = rule_errors(ha.rules, call.cluster.nodes)
    return {**entry, "errors": errors[name]} if name in errors else entry


@api.method("GET", _RULES, READ, {"type": Prop(optional=True, enum=RULE_TYPES), "resource": Prop(optional=True)})
def rules(call: Call) -> list[dict[str, Any]]:
    """Return the HA rules, of one type or for one resource if asked."""
    wanted = call.text("resource")
    found = [
        _rule(call, name)
        for name, section in call.cluster.ha.rules.items()
        if wanted is None or wanted in resources_of(section)
    ]
    return [entry for entry in found if call.text("type") in (None, entry["type"])]


@api.method("GET", f"{_RULES}/{{rule}}", READ, {"rule": Prop(format=formats.configid)})
def rule(call: Call) -> dict[str, Any]:
    """Return an HA rule."""
    return _rule(call, str(call.params["rule"]))


@api.method(
    "POST",
    _RULES,
    WRITE,
    {
        "rule": Prop(format=formats.configid),
        "type": Prop(enum=RULE_TYPES),
        "resources": Prop(format=formats.list_of(check_resource_id)),
        **_RULE_PROPERTIES,
    },
)
def add_rule(call: Call) -> None:
    """Add an HA rule."""
    ha, name = call.cluster.ha, str(call.params["rule"])
    call.cluster.members.require_quorum()
    section = _changed_rule(call, {"type": str(call.params["type"])})
    with failing_as("create ha rule"):
        if name in ha.rules:
            raise OperationError(f"HA rule '{name}' already defined")
        _require_usable(call, name, section)
        ha.put_rule(name, section)


@api.method(
    "PUT",
    f"{_RULES}/{{rule}}",
    WRITE,
    {
        "rule": Prop(format=formats.configid),
        "type": Prop(enum=RULE_TYPES),
        "resources": Prop(optional=True, format=formats.list_of(check_resource_id)),
        **_RULE_PROPERTIES,
        "delete": Prop(optional=True),
        "digest": DIGEST,
    },
)
def change_rule(call: Call) -> None:
    """Change an HA rule."""
    ha, name = call.cluster.ha, str(call.params["rule"])
    with failing_as("update HA rules"):
        require_same(call, "rules")
        if name not in ha.rules:
            raise OperationError(f"HA rule '{name}' does not exist")
        section = _changed_rule(call, ha.rules[name])
        for key in formats.split_list(call.text("delete") or ""):
            section.pop(key, None)
        _require_usable(call, name, section)
        ha.put_rule(name, section)


@api.method("DELETE", f"{_RULES}/{{rule}}", WRITE, {"rule": Prop(format=formats.configid)})
def remove_rule(call: Call) -> None:
    """Remove an HA rule. As in Proxmox, without an error if it does not exist."""
    with failing_as("delete ha rule"):
        call.cluster.ha.remove_rule(str(call.params["rule"]))


def _changed_rule(call: Call, old: Section) -> Section:
    """Return a rule with the properties of a call. Only node affinity names nodes."""
    located = old["type"] == "node-affinity"
    for key in ("nodes", "strict"):
        if key in call.params and not located:
            raise OperationError(f"unexpected property '{key}'")
    section = {**old, **given(call, ("comment", "disable", "affinity", "strict"))}
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
