"""API methods: roles, which are named sets of privileges."""

from __future__ import annotations

from typing import Any, Final

from pvebox.access.accounts import existing
from pvebox.access.changes import changed_access
from pvebox.access.privileges import ALL, BUILT_IN_ROLES
from pvebox.api import formats
from pvebox.api.errors import OperationError, ParameterError
from pvebox.api.routes import Call, anybody, api, having
from pvebox.api.schema import FormatError, Prop


def privilege(name: str) -> None:
    """Raise unless a privilege of this name exists."""
    if name not in ALL:
        raise FormatError(f"invalid privilege '{name}'\n")


_ROLE: Final = "/access/roles/{roleid}"
_ROLEID: Final = {"roleid": Prop(format=formats.role_id)}
_SETTINGS: Final = {**_ROLEID, "privs": Prop(optional=True, format=formats.list_of(privilege))}
_MODIFY: Final = having("/access", "Sys.Modify")


@api.method("GET", "/access/roles", anybody)
def roles(call: Call) -> list[dict[str, Any]]:
    """Return all roles."""
    return [
        {"roleid": name, "privs": ",".join(sorted(privileges)), "special": int(name in BUILT_IN_ROLES)}
        for name, privileges in sorted(call.cluster.access.roles.items())
    ]


@api.method("GET", _ROLE, anybody, _ROLEID)
def role(call: Call) -> dict[str, int]:
    """Return the privileges of a role."""
    return dict.fromkeys(sorted(existing(call.cluster.access.roles, "role", str(call.params["roleid"]))), 1)


@api.method("POST", "/access/roles", _MODIFY, _SETTINGS)
def create_role(call: Call) -> None:
    """Create a role."""
    name = str(call.params["roleid"])
    if name.upper().startswith("PVE"):
        raise ParameterError({"roleid": "cannot use role ID starting with the (case-insensitive) 'PVE' namespace"})
    with changed_access(call, "create role failed") as access:
        if name in access.roles:
            raise OperationError(f"role '{name}' already exists")
        access.roles[name] = _named(call)


@api.method("PUT", _ROLE, _MODIFY, {**_SETTINGS, "append": Prop(type="boolean", optional=True, requires="privs")})
def change_role(call: Call) -> None:
    """Replace the privileges of a role, or add some."""
    name = _own(call, "modified")
    with changed_access(call, "update role failed") as access:
        kept = existing(access.roles, "role", name)
        access.roles[name] = _named(call) | (kept if call.flag("append") else frozenset())


@api.method("DELETE", _ROLE, _MODIFY, _ROLEID)
def delete_role(call: Call) -> None:
    """Delete a role with its ACLs."""
    name = _own(call, "deleted")
    with changed_access(call, "delete role failed") as access:
        existing(access.roles, "role", name)
        del access.roles[name]


def _own(call: Call, participle: str) -> str:
    """Return the role that a request names. Raise if the role is built in."""
    name = str(call.params["roleid"])
    if name in BUILT_IN_ROLES:
        raise OperationError(f"auto-generated role '{name}' cannot be {participle}")
    return name


def _named(call: Call) -> frozenset[str]:
    return frozenset(formats.split_list(call.text("privs") or ""))
