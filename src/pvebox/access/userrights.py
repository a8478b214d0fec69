"""Checks of the privileges that methods about users need."""

from __future__ import annotations

from pvebox.api import formats
from pvebox.api.errors import OperationError, PrivilegeError
from pvebox.api.routes import Call
from pvebox.api.schema import FormatError


def verified_userid(call: Call) -> str:
    """Return the user that a request names. Proxmox checks privileges before parameters, so a wrong name fails here."""
    userid = call.text("userid") or ""
    try:
        formats.userid(userid)
    except FormatError as error:
        raise OperationError(str(error)) from None
    return userid


def require_realm(call: Call) -> None:
    """Raise unless the caller may create and delete users in the realm of the named user."""
    realm = verified_userid(call).rpartition("@")[2]
    call.require(f"/access/realm/{realm}", "Realm.AllocateUser")


def require_on_existing_user(call: Call, *privileges: str) -> None:
    """Raise unless the caller has a privilege on all groups, or on a group of the named user."""
    userid = verified_userid(call)
    call.cluster.access.user(userid)
    if not may_on_user(call, userid, *privileges):
        raise PrivilegeError


def require_on_named_groups(call: Call, *privileges: str) -> None:
    """Raise unless the caller has a privilege on all groups, or on each group that the request names."""
    if call.allows("/access/groups", *privileges, any_of=True):
        return
    named = formats.split_list(call.text("groups") or "")
    if not named:
        raise PrivilegeError(f"/access/groups, {'|'.join(privileges)}")
    for group in named:
        # A group that does not exist gives no right, not even by an ACL on its path.
        if group not in call.cluster.access.groups or not _on_group(call, group, *privileges):
            raise PrivilegeError(f"/access/groups/{group}, {'|'.join(privileges)}")


def require_self_or_user_modify(call: Call) -> None:
    """Raise unless the caller is the named user or may modify that user. A token is not its user."""
    userid = verified_userid(call)
    exists = userid in call.cluster.access.users
    if not exists or (call.user != userid and not may_on_user(call, userid, "User.Modify")):
        raise PrivilegeError


def may_on_user(call: Call, userid: str, *privileges: str) -> bool:
    """Return whether the caller has a privilege on all groups, or on a group of a user."""
    if call.allows("/access/groups", *privileges, any_of=True):
        return True
    return any(_on_group(call, group, *privileges) for group in call.cluster.access.groups_of(userid))


def _on_group(call: Call, group: str, *privileges: str) -> bool:
    return call.allows(f"/access/groups/{group}", *privileges, any_of=True)
