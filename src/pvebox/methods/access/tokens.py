"""API methods: the API tokens of users."""

from __future__ import annotations

import uuid
from typing import Any, Final

from pvebox.access.accounts import Access, Token
from pvebox.access.changes import changed_access
from pvebox.access.userrights import require_self_or_user_modify
from pvebox.api import formats
from pvebox.api.errors import OperationError, ParameterError
from pvebox.api.routes import Call, api
from pvebox.api.schema import FLAG, Prop

_TOKEN: Final = "/access/users/{userid}/token/{tokenid}"  # noqa: S105
_USERID: Final = Prop(format=formats.userid, max_length=64)
_IDS: Final = {"userid": _USERID, "tokenid": Prop(pattern=r"[A-Za-z][A-Za-z0-9.\-_]+")}
_SETTINGS: Final = {
    **_IDS,
    "expire": Prop(type="integer", minimum=0, optional=True),
    "privsep": FLAG,
    "comment": Prop(optional=True),
}


def tokens_of(access: Access, userid: str) -> dict[str, Token]:
    """Return the tokens of a user by their names."""
    start = f"{userid}!"
    return {name.removeprefix(start): token for name, token in sorted(access.tokens.items()) if name.startswith(start)}


def token_info(token: Token) -> dict[str, Any]:
    """Return a token without its secret."""
    info: dict[str, Any] = {"privsep": int(token.privsep), "expire": token.expire}
    if token.comment:
        info["comment"] = token.comment
    return info


def _full_id(call: Call) -> str:
    return f"{call.params['userid']}!{call.params['tokenid']}"


@api.method("GET", "/access/users/{userid}/token", require_self_or_user_modify, {"userid": _USERID})
def tokens(call: Call) -> list[dict[str, Any]]:
    """Return the tokens of a user."""
    userid = str(call.params["userid"])
    call.cluster.access.user(userid)
    found = tokens_of(call.cluster.access, userid)
    return [{"tokenid": name, **token_info(token)} for name, token in found.items()]


@api.method("GET", _TOKEN, require_self_or_user_modify, _IDS)
def token(call: Call) -> dict[str, Any]:
    """Return a token without its secret."""
    return token_info(call.cluster.access.token(_full_id(call)))


@api.method("POST", _TOKEN, require_self_or_user_modify, _SETTINGS)
def create_token(call: Call) -> dict[str, Any]:
    """Create a token and return it with its secret."""
    userid, name = str(call.params["userid"]), _full_id(call)
    call.cluster.access.user(userid)
    if name in call.cluster.access.tokens:
        raise ParameterError({"tokenid": "Token already exists."})
    with changed_access(call, "generating token failed") as access:
        access.user(userid)
        if name in access.tokens:
            raise OperationError("Token already exists.")
        made = access.tokens[name] = Token(str(uuid.uuid4()))
        _apply(call, made)
    # Proxmox returns the given values as texts, and only these.
    return {"full-tokenid": name, "value": made.secret, "info": {"privsep": 1, **_given(call)}}


@api.method("PUT", _TOKEN, require_self_or_user_modify, _SETTINGS)
def change_token(call: Call) -> dict[str, Any]:
    """Change a token."""
    name = _full_id(call)
    call.cluster.access.token(name)
    with changed_access(call, "updating token info failed") as access:
        changed = access.token(name)
        _apply(call, changed)
    return {**token_info(changed), **_given(call)}


@api.method("DELETE", _TOKEN, require_self_or_user_modify, _IDS)
def delete_token(call: Call) -> None:
    """Delete a token with its ACLs."""
    name = _full_id(call)
    call.cluster.access.token(name)
    with changed_access(call, "deleting token failed") as access:
        access.token(name)
        del access.tokens[name]


def _apply(call: Call, token: Token) -> None:
    if call.text("privsep") is not None:
        token.privsep = call.flag("privsep")
    if (expire := call.text("expire")) is not None:
        token.expire = int(expire)
    token.comment = call.text("comment") or token.comment


def _given(call: Call) -> dict[str, str]:
    given = {key: str(call.params[key]) for key in ("privsep", "expire") if call.text(key) is not None}
    return {**given, "comment": str(call.params["comment"])} if call.text("comment") else given
