"""API methods: authentication realms, logins with a password, and changes of passwords."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from pvebox.access import tickets
from pvebox.access.accounts import Access
from pvebox.access.privileges import normalized
from pvebox.access.realms import REALMS, require_password, set_password
from pvebox.access.userrights import require_on_existing_user, require_realm, verified_userid
from pvebox.api import formats
from pvebox.api.errors import ApiError, LoginError, OperationError, ParameterError, PrivilegeError
from pvebox.api.routes import Call, api, having, world
from pvebox.api.schema import FLAG, FormatError, Prop
from pvebox.methods.access.roles import privilege
from pvebox.methods.access.users import USERID

# The privileges that a login page wants to know, by the first part of a path.
_CAPABILITIES: Final = {
    "vms": r"VM\.|Permissions\.Modify",
    "access": r"(User|Group)\.|Permissions\.Modify",
    "storage": r"Datastore\.|Permissions\.Modify",
    "nodes": r"Sys\.|Permissions\.Modify",
    "sdn": r"SDN\.|Permissions\.Modify",
    "dc": r"Sys\.Audit|Sys\.Modify|SDN\.",
    "mapping": r"Mapping\.|Permissions.Modify",
}


@api.method("GET", "/access/domains", world)
def domains(call: Call) -> list[dict[str, Any]]:
    """Return the realms. A login page needs them, so no login is necessary."""
    return [{"realm": name, "type": name, "comment": comment} for name, comment in REALMS.items()]


@api.method(
    "GET",
    "/access/domains/{realm}",
    having("/access/realm", "Realm.Allocate", "Sys.Audit", any_of=True),
    {"realm": Prop(format=formats.realm, max_length=32)},
)
def domain(call: Call) -> dict[str, Any]:
    """Return the settings of a realm."""
    name = str(call.params["realm"])
    if name not in REALMS:
        raise OperationError(f"domain '{name}' does not exist")
    plugin = {"plugin": "PVE::Auth::PAM"} if name == "pam" else {}
    # The two built-in realms are not in domains.cfg, which is empty.
    digest = hashlib.sha1(b"", usedforsecurity=False).hexdigest()
    return {"type": name, "comment": REALMS[name], **plugin, "digest": digest}


@api.method("GET", "/access/ticket", world)
def login_page(call: Call) -> None:
    """Return nothing. Formatters of other kinds show a login page here."""


@api.method(
    "POST",
    "/access/ticket",
    world,
    {
        "username": Prop(max_length=64),
        "realm": Prop(optional=True, format=formats.realm, max_length=32),
        "password": Prop(),
        "otp": Prop(optional=True),
        "path": Prop(optional=True, max_length=64, requires="privs"),
        "privs": Prop(optional=True, max_length=64, requires="path", format=formats.list_of(privilege)),
        "new-format": FLAG,
        "tfa-challenge": Prop(optional=True),
    },
    for_tokens=False,
)
def create_ticket(call: Call) -> dict[str, Any]:
    """Return a ticket for a user name and a password, or for a ticket that is still valid."""
    access = call.cluster.access
    username = str(call.params["username"]) + (f"@{call.params['realm']}" if call.text("realm") else "")
    try:
        formats.userid(username)
        if not access.is_enabled(username):
            raise LoginError
        if call.text("path") and call.text("privs"):
            shown = _verified(call, access, username)
        else:
            shown = _logged_in(call, access, username)
    except (ApiError, FormatError):
        # The answer does not tell which part is wrong.
        raise LoginError from None
    return {**shown, "cap": capabilities(access, username)}


def _logged_in(call: Call, access: Access, username: str) -> dict[str, Any]:
    password = str(call.params["password"])
    if call.text("tfa-challenge") is not None:
        # No user has a second factor, so no challenge was ever given out.
        raise LoginError
    # root@pam may get tickets for other users.
    if tickets.holder(access.authkey, password) not in (username, "root@pam"):
        require_password(access, username, password)
    return {
        "username": username,
        "ticket": tickets.issue(access.authkey, username),
        "CSRFPreventionToken": tickets.issue_csrf_token(access.authkey, username),
    }


def _verified(call: Call, access: Access, username: str) -> dict[str, Any]:
    password = str(call.params["password"])
    if tickets.holder(access.authkey, password) != username:
        require_password(access, username, password)
    path = normalized(str(call.params["path"]))
    wanted = formats.split_list(str(call.params["privs"]))
    if path is None or not wanted or not access.allows(username, path, wanted):
        raise OperationError(f"no permission ({call.params['path']}, {call.params['privs']})")
    return {"username": username}


def capabilities(access: Access, user: str) -> dict[str, dict[str, int]]:
    """Return the privileges that a user has anywhere, by kind of object."""
    found: dict[str, dict[str, int]] = {kind: {} for kind in _CAPABILITIES}
    paths = {"/", "/nodes", "/access/groups", "/vms", "/storage", "/sdn", "/mapping"}
    for path in paths | access.acl_paths():
        top = path.split("/")[1] or "dc"
        for name in access.privileges(user, path):
            if top == "pool":
                for kind in ("vms", "storage"):
                    if re.match(_CAPABILITIES[kind], name):
                        found[kind][name] = 1
            elif top in _CAPABILITIES and re.match(_CAPABILITIES[top], name):
                found[top][name] = 1
    return found


def _may_set_password(call: Call) -> None:
    userid = verified_userid(call)
    if call.user != userid:
        require_realm(call)
        require_on_existing_user(call, "User.Modify")


@api.method(
    "PUT",
    "/access/password",
    _may_set_password,
    {
        "userid": USERID,
        "password": Prop(min_length=8, max_length=64),
        "confirmation-password": Prop(optional=True, min_length=5, max_length=64),
    },
    for_tokens=False,
)
def change_password(call: Call) -> None:
    """Change a password. Every user but root must confirm with the own password."""
    access, userid = call.cluster.access, str(call.params["userid"])
    access.user(userid)
    if not call.is_root:
        if userid == "root@pam":
            raise PrivilegeError
        confirmation = call.text("confirmation-password")
        if confirmation is None:
            raise ParameterError({"confirmation-password": "password is required to modify user"})
        require_password(access, call.user, confirmation)
        if call.user != userid and userid.endswith("@pam"):
            raise PrivilegeError
    with access.lock:
        set_password(access, userid, str(call.params["password"]))
    call.cluster.access_changed()
