"""API methods: users."""

from __future__ import annotations

from typing import Any, Final

from pvebox.access.accounts import Access, User
from pvebox.access.changes import changed_access
from pvebox.access.realms import REALMS, set_password
from pvebox.access.userrights import (
    may_on_user,
    require_on_existing_user,
    require_on_named_groups,
    require_realm,
    verified_userid,
)
from pvebox.api import formats
from pvebox.api.errors import OperationError
from pvebox.api.routes import Call, anybody, api
from pvebox.api.schema import FLAG, Prop
from pvebox.methods.access.tokens import token_info, tokens_of

USERID: Final = Prop(format=formats.userid, max_length=64)
_TEXTS: Final = ("firstname", "lastname", "email", "comment", "keys")
_SETTINGS: Final = {
    "userid": USERID,
    "enable": FLAG,
    "expire": Prop(type="integer", minimum=0, optional=True),
    "firstname": Prop(optional=True),
    "lastname": Prop(optional=True),
    "email": Prop(optional=True, format=formats.email_opt),
    "comment": Prop(optional=True),
    "keys": Prop(optional=True),
    "groups": Prop(optional=True, format=formats.list_of(formats.group_id)),
}


@api.method(
    "GET",
    "/access/users",
    anybody,
    {"enabled": FLAG, "full": FLAG},
)
def users(call: Call) -> list[dict[str, Any]]:
    """Return the users that the caller may see, with groups and tokens if asked."""
    found = []
    for userid, user in sorted(call.cluster.access.users.items()):
        # A token is not its user, so it does not see its user without a right.
        if userid != call.user and not may_on_user(call, userid, "User.Modify", "Sys.Audit"):
            continue
        if call.text("enabled") is not None and call.flag("enabled") != user.enabled:
            continue
        entry = {"userid": userid, **_described(user)}
        realm = userid.rpartition("@")[2]
        if realm in REALMS:
            entry["realm-type"] = realm
        if call.flag("full"):
            entry["groups"] = ",".join(call.cluster.access.groups_of(userid))
            tokens = tokens_of(call.cluster.access, userid)
            if tokens:
                entry["tokens"] = [{"tokenid": name, **token_info(token)} for name, token in tokens.items()]
        found.append(entry)
    return found


def _described(user: User) -> dict[str, Any]:
    shown: dict[str, Any] = {"enable": int(user.enabled), "expire": user.expire}
    shown |= {key: getattr(user, key) for key in _TEXTS if getattr(user, key)}
    if user.comment or user.keys:
        # Proxmox reads an empty field of its file as unset only if nothing follows it.
        shown.setdefault("email", "")
    return shown


def _may_read(call: Call) -> None:
    require_on_existing_user(call, "User.Modify", "Sys.Audit")


@api.method("GET", "/access/users/{userid}", _may_read, {"userid": USERID})
def user_info(call: Call) -> dict[str, Any]:
    """Return a user with groups and tokens."""
    access, userid = call.cluster.access, str(call.params["userid"])
    shown = {**_described(access.user(userid)), "groups": access.groups_of(userid)}
    tokens = tokens_of(access, userid)
    if tokens:
        shown["tokens"] = {name: token_info(token) for name, token in tokens.items()}
    return shown


def _may_create(call: Call) -> None:
    require_realm(call)
    require_on_named_groups(call, "User.Modify")


@api.method(
    "POST",
    "/access/users",
    _may_create,
    {**_SETTINGS, "password": Prop(optional=True, min_length=8, max_length=64)},
)
def create_user(call: Call) -> None:
    """Create a user."""
    userid = str(call.params["userid"])
    with changed_access(call, "create user failed") as access:
        if userid in access.users:
            raise OperationError(f"user '{userid}' already exists")
        if (password := call.text("password")) is not None:
            set_password(access, userid, password)
        user = access.users[userid] = User()
        _apply(call, user)
        _join(access, userid, call.text("groups"))


def _may_change(call: Call) -> None:
    call.cluster.access.user(verified_userid(call))
    require_on_named_groups(call, "User.Modify")
    require_on_existing_user(call, "User.Modify")


@api.method(
    "PUT",
    "/access/users/{userid}",
    _may_change,
    {**_SETTINGS, "append": Prop(type="boolean", optional=True, requires="groups")},
)
def change_user(call: Call) -> None:
    """Change a user."""
    userid = str(call.params["userid"])
    with changed_access(call, "update user failed") as access:
        _apply(call, access.user(userid))
        if call.text("groups") is not None and not call.flag("append"):
            _leave_groups(access, userid)
        _join(access, userid, call.text("groups"))


def _apply(call: Call, user: User) -> None:
    if call.text("enable") is not None:
        user.enabled = call.flag("enable")
    if (expire := call.text("expire")) is not None:
        user.expire = int(expire)
    for key in _TEXTS:
        if (text := call.text(key)) is not None:
            setattr(user, key, text)


def _join(access: Access, userid: str, groups: str | None) -> None:
    for name in formats.split_list(groups or ""):
        if name not in access.groups:
            raise OperationError(f"no such group '{name}'")
        access.groups[name].users.add(userid)


def _leave_groups(access: Access, userid: str) -> None:
    for group in access.groups.values():
        group.users.discard(userid)


def _may_delete(call: Call) -> None:
    require_realm(call)
    require_on_existing_user(call, "User.Modify")


@api.method("DELETE", "/access/users/{userid}", _may_delete, {"userid": USERID})
def delete_user(call: Call) -> None:
    """Delete a user with its tokens, memberships and ACLs. root@pam comes back at once, without all these."""
    userid = str(call.params["userid"])
    with changed_access(call, "delete user failed") as access:
        access.users.pop(userid, None)
        access.tokens = {name: token for name, token in access.tokens.items() if name.split("!")[0] != userid}
        if userid.endswith("@pve"):
            access.passwords.pop(userid, None)
        _leave_groups(access, userid)
        access.acl = [entry for entry in access.acl if entry.ugid != userid]
