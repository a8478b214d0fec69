"""API methods: the access control list, and the privileges that it gives."""

from __future__ import annotations

from typing import Any, Final

from pvebox.access.accounts import Access, AclEntry, existing
from pvebox.access.changes import changed_access
from pvebox.access.privileges import is_allowed, normalized
from pvebox.api import formats
from pvebox.api.errors import ParameterError
from pvebox.api.routes import Call, anybody, api
from pvebox.api.schema import FLAG, Prop

# A caller who may allocate an object may also change its ACLs.
_OWNER: Final = {"storage": "Datastore.Allocate", "vms": "VM.Allocate", "pool": "Pool.Allocate"}


def _sufficient(path: str) -> tuple[str, ...]:
    """Return the privileges that allow to change the ACLs on a path. One of them is enough."""
    top, _, rest = path.lstrip("/").partition("/")
    return ("Permissions.Modify", _OWNER[top]) if rest and top in _OWNER else ("Permissions.Modify",)


@api.method("GET", "/access/acl", anybody)
def acl(call: Call) -> list[dict[str, Any]]:
    """Return the ACL entries that the caller may see."""
    audits = call.allows("/access", "Sys.Audit")
    found = []
    for entry in sorted(call.cluster.access.acl, key=lambda entry: (entry.path, _kind(entry), entry.ugid, entry.role)):
        if not audits and not call.allows(entry.path, *_sufficient(entry.path), any_of=True):
            continue
        found.append(
            {
                "path": entry.path,
                "type": _kind(entry),
                "ugid": entry.ugid.removeprefix("@"),
                "roleid": entry.role,
                "propagate": int(entry.propagate),
            }
        )
    return found


def _kind(entry: AclEntry) -> str:
    return "group" if entry.ugid.startswith("@") else "token" if "!" in entry.ugid else "user"


def _may_change(call: Call) -> None:
    path = normalized(call.text("path") or "")
    # The schema or the handler rejects any other path.
    if path is not None:
        call.require(path, *_sufficient(path), any_of=True)


@api.method(
    "PUT",
    "/access/acl",
    _may_change,
    {
        "path": Prop(),
        "roles": Prop(format=formats.list_of(formats.role_id)),
        "users": Prop(optional=True, format=formats.list_of(formats.userid)),
        "groups": Prop(optional=True, format=formats.list_of(formats.group_id)),
        "tokens": Prop(optional=True, format=formats.list_of(formats.token_id)),
        "propagate": FLAG,
        "delete": FLAG,
    },
)
def change_acl(call: Call) -> None:
    """Give roles on a path to users, groups and tokens, or take them away."""
    if not any(call.text(kind) for kind in ("users", "groups", "tokens")):
        missing = "either 'users', 'groups' or 'tokens' is required."
        raise ParameterError(dict.fromkeys(("users", "groups", "tokens"), missing))
    path = normalized(str(call.params["path"]))
    if path is None or not (call.flag("delete") or is_allowed(path)):
        raise ParameterError({"path": f"invalid ACL path '{call.params['path']}'"})
    propagate = call.text("propagate") != "0"
    with changed_access(call, "ACL update failed") as access:
        for role in formats.split_list(str(call.params["roles"])):
            existing(access.roles, "role", role)
            for ugid in _named(call, access):
                access.acl = [
                    entry for entry in access.acl if (entry.path, entry.ugid, entry.role) != (path, ugid, role)
                ]
                if not call.flag("delete"):
                    access.acl.append(AclEntry(path, ugid, role, propagate))


def _named(call: Call, access: Access) -> list[str]:
    """Return the groups, users and tokens that the request names, or raise if one does not exist."""
    found = []
    for group in formats.split_list(call.text("groups") or ""):
        existing(access.groups, "group", group)
        found.append(f"@{group}")
    for user in formats.split_list(call.text("users") or ""):
        existing(access.users, "user", user)
        found.append(user)
    for token in formats.split_list(call.text("tokens") or ""):
        access.token(token)
        found.append(token)
    return found


@api.method("GET", "/access/permissions", anybody, {"path": Prop(optional=True), "userid": Prop(optional=True)})
def permissions(call: Call) -> dict[str, dict[str, int]]:
    """Return the privileges of the caller by path."""
    who = call.text("userid") or call.user
    if who != call.user and not who.startswith(f"{call.user}!"):
        call.require("/access", "Sys.Audit")
    path = call.text("path")
    if path is not None:
        return {path: call.cluster.access.privileges(who, path)}
    return call.cluster.access.effective(who)
