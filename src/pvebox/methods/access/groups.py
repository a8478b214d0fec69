"""API methods: groups of users."""

from __future__ import annotations

from typing import Any, Final

from pvebox.access.accounts import Group, existing
from pvebox.access.changes import changed_access
from pvebox.api import formats
from pvebox.api.errors import OperationError
from pvebox.api.routes import Call, anybody, api, having
from pvebox.api.schema import Prop

_GROUP: Final = "/access/groups/{groupid}"
_GROUPID: Final = {"groupid": Prop(format=formats.group_id)}
_SETTINGS: Final = {**_GROUPID, "comment": Prop(optional=True)}
_ALLOCATE: Final = having("/access/groups", "Group.Allocate")


@api.method("GET", "/access/groups", anybody)
def groups(call: Call) -> list[dict[str, Any]]:
    """Return the groups that the caller may see."""
    return [
        {"groupid": name, "users": ",".join(sorted(group.users)), **_comment(group)}
        for name, group in sorted(call.cluster.access.groups.items())
        if call.allows(f"/access/groups/{name}", "User.Modify", "Sys.Audit", "Group.Allocate", any_of=True)
    ]


@api.method("GET", _GROUP, having("/access/groups", "Sys.Audit", "Group.Allocate", any_of=True), _GROUPID)
def group(call: Call) -> dict[str, Any]:
    """Return the members of a group."""
    found = existing(call.cluster.access.groups, "group", str(call.params["groupid"]))
    return {"members": sorted(found.users), **_comment(found)}


@api.method("POST", "/access/groups", _ALLOCATE, _SETTINGS)
def create_group(call: Call) -> None:
    """Create a group without members."""
    name = str(call.params["groupid"])
    with changed_access(call, "create group failed") as access:
        if name in access.groups:
            raise OperationError(f"group '{name}' already exists")
        access.groups[name] = Group(comment=call.text("comment") or "")


@api.method("PUT", _GROUP, _ALLOCATE, _SETTINGS)
def change_group(call: Call) -> None:
    """Change the comment of a group."""
    with changed_access(call, "update group failed") as access:
        found = existing(access.groups, "group", str(call.params["groupid"]))
        if (comment := call.text("comment")) is not None:
            found.comment = comment


@api.method("DELETE", _GROUP, _ALLOCATE, _GROUPID)
def delete_group(call: Call) -> None:
    """Delete a group with its ACLs."""
    name = str(call.params["groupid"])
    with changed_access(call, "delete group failed") as access:
        existing(access.groups, "group", name)
        del access.groups[name]
        access.acl = [entry for entry in access.acl if entry.ugid != f"@{name}"]


def _comment(group: Group) -> dict[str, str]:
    return {"comment": group.comment} if group.comment else {}
