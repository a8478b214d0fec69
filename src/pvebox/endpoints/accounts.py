"""API methods: permissions, ACLs, users and tokens."""

from __future__ import annotations

import uuid
from typing import Any

from .. import formats
from ..access import Token
from ..errors import OperationError, ParameterError, PrivilegeError
from ..routes import Call, anybody, api
from ..schema import Prop


@api.method(
    "GET",
    "/access/permissions",
    anybody,
    {"path": Prop(optional=True), "userid": Prop(optional=True)},
)
def permissions(call: Call) -> dict[str, dict[str, int]]:
    """Return the privileges of the caller by path."""
    who = call.text("userid") or call.user
    if who != call.user and not who.startswith(f"{call.user}!"):
        call.require("/access", "Sys.Audit")
    path = call.text("path")
    if path is not None:
        return {path: call.cluster.access.privileges(who, path)}
    return call.cluster.access.effective(who)


@api.method("GET", "/access/acl", anybody)
def acl(call: Call) -> list[dict[str, Any]]:
    """Return the ACL entries that the caller may see."""
    audits = call.allows("/access", "Sys.Audit")
    found = []
    for entry in call.cluster.access.acl:
        if not audits and not call.allows(entry.path, "Permissions.Modify"):
            continue
        kind = "group" if entry.ugid.startswith("@") else "token" if "!" in entry.ugid else "user"
        found.append(
            {
                "path": entry.path,
                "type": kind,
                "ugid": entry.ugid.removeprefix("@"),
                "roleid": entry.role,
                "propagate": int(entry.propagate),
            }
        )
    return found


@api.method("PUT", "/access/password", anybody, for_tokens=False)
def password(call: Call) -> None:
    """Do nothing: passwords are for tickets, which the sandbox does not support."""


def _groups_of(call: Call, userid: str) -> list[str]:
    return sorted(name for name, users in call.cluster.access.groups.items() if userid in users)


def _may_see_user(call: Call, userid: str) -> bool:
    """Return whether the caller may read a user: by a right on all groups, or on one of the user's."""
    paths = ("/access/groups", *(f"/access/groups/{group}" for group in _groups_of(call, userid)))
    return any(call.allows(path, "User.Modify", "Sys.Audit", any_of=True) for path in paths)


def _require_visible_user(call: Call) -> None:
    userid = str(call.params["userid"])
    if userid not in call.cluster.access.users:
        raise OperationError(f"no such user ('{userid}')")
    if not _may_see_user(call, userid):
        raise PrivilegeError


@api.method(
    "GET",
    "/access/users",
    anybody,
    {"enabled": Prop(type="boolean", optional=True), "full": Prop(type="boolean", optional=True)},
)
def users(call: Call) -> list[dict[str, Any]]:
    """Return the users that the caller may see, with groups and tokens if asked."""
    found = []
    for userid, user in sorted(call.cluster.access.users.items()):
        # A token is not its user, so it does not see its user without a right.
        if userid != call.user and not _may_see_user(call, userid):
            continue
        if call.text("enabled") is not None and call.flag("enabled") != user.enabled:
            continue
        entry = {"userid": userid, "enable": int(user.enabled), "expire": user.expire}
        entry["realm-type"] = userid.rpartition("@")[2]
        if call.flag("full"):
            entry["groups"] = ",".join(_groups_of(call, userid))
            tokens = _tokens_of(call, userid)
            if tokens:
                entry["tokens"] = [{"tokenid": name, **info} for name, info in tokens.items()]
        found.append(entry)
    return found


@api.method("GET", "/access/users/{userid}", _require_visible_user)
def user_info(call: Call) -> dict[str, Any]:
    """Return a user with groups and tokens."""
    userid = str(call.params["userid"])
    user = call.cluster.access.users[userid]
    shown = {"enable": int(user.enabled), "expire": user.expire, "groups": _groups_of(call, userid)}
    tokens = _tokens_of(call, userid)
    return {**shown, "tokens": tokens} if tokens else shown


def _require_user_modify(call: Call) -> None:
    """Raise unless the caller is this user or may modify users. A token is not its user."""
    if call.user == call.text("userid"):
        return
    if not call.allows(f"/access/users/{call.text('userid')}", "User.Modify"):
        raise PrivilegeError


_TOKEN_PROPS = {
    "userid": Prop(format=formats.userid, max_length=64),
    "tokenid": Prop(pattern=r"[A-Za-z][A-Za-z0-9.\-_]+"),
}


def _token_info(token: Token) -> dict[str, Any]:
    info: dict[str, Any] = {"privsep": int(token.privsep), "expire": token.expire}
    if token.comment:
        info["comment"] = token.comment
    return info


def _tokens_of(call: Call, userid: str) -> dict[str, dict[str, Any]]:
    """Return the facts about a user's tokens by their names."""
    start = f"{userid}!"
    return {
        name.removeprefix(start): _token_info(token)
        for name, token in sorted(call.cluster.access.tokens.items())
        if name.startswith(start)
    }


@api.method("GET", "/access/users/{userid}/token", _require_user_modify)
def tokens(call: Call) -> list[dict[str, Any]]:
    """Return the tokens of a user."""
    return [{"tokenid": name, **info} for name, info in _tokens_of(call, str(call.params["userid"])).items()]


@api.method("GET", "/access/users/{userid}/token/{tokenid}", _require_user_modify)
def token_info(call: Call) -> dict[str, Any]:
    """Return a token without its secret."""
    name = f"{call.params['userid']}!{call.params['tokenid']}"
    token = call.cluster.access.tokens.get(name)
    if token is None:
        raise OperationError(f"no such token '{call.params['tokenid']}' for user '{call.params['userid']}'")
    return _token_info(token)


@api.method(
    "POST",
    "/access/users/{userid}/token/{tokenid}",
    _require_user_modify,
    {
        **_TOKEN_PROPS,
        "expire": Prop(type="integer", minimum=0, optional=True),
        "privsep": Prop(type="boolean", optional=True),
        "comment": Prop(optional=True),
    },
)
def create_token(call: Call) -> dict[str, Any]:
    """Create a token and return it with its secret."""
    owner, token_id = str(call.params["userid"]), str(call.params["tokenid"])
    name = f"{owner}!{token_id}"
    if owner not in call.cluster.access.users:
        raise OperationError(f"no such user ('{owner}')")
    if name in call.cluster.access.tokens:
        raise ParameterError({"tokenid": "Token already exists."})
    call.cluster.require_user_config("generating token failed")
    token = Token(
        str(uuid.uuid4()),
        privsep=str(call.params.get("privsep", "1")) == "1",
        expire=int(call.params.get("expire", 0)),
        comment=call.text("comment") or "",
    )
    call.cluster.access.tokens[name] = token
    call.cluster.access_changed()
    return {"full-tokenid": name, "value": token.secret, "info": _token_info(token)}
