"""Change users, tokens, groups, roles, pools and ACLs: all of a change or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pvebox.access.accounts import ROOT, Access, User
from pvebox.api.errors import ApiError, OperationError, PrivilegeError
from pvebox.api.routes import Call


@contextmanager
def changed_access(call: Call, failure: str) -> Iterator[Access]:
    """Yield a copy of the access data. Take it over and save it, unless an error changes nothing."""
    access = call.cluster.access
    try:
        call.cluster.members.require_lock("file-user_cfg", call.cluster.configs.lock_timeout)
    except OperationError as error:
        raise OperationError(f"{failure}: {error.text}") from None
    with access.lock:
        draft = access.copy()
        try:
            yield draft
        except ApiError as error:
            # Proxmox answers every error under the lock of its user database with status 500.
            status = f"{error.status} " if isinstance(error, PrivilegeError) else ""
            raise OperationError(f"{failure}: {status}{error.message}") from None
        _drop_dangling(draft)
        access.take(draft)
    call.cluster.access_changed()


def _drop_dangling(access: Access) -> None:
    """Drop the tokens and ACLs that Proxmox drops when it writes and reads its user database."""
    access.users.setdefault(ROOT, User())
    access.tokens = {name: token for name, token in access.tokens.items() if name.split("!")[0] in access.users}
    access.acl = [entry for entry in access.acl if entry.role in access.roles and _is_kept(access, entry.ugid)]


def _is_kept(access: Access, ugid: str) -> bool:
    """Return whether ACLs of a user, token or group are kept: root needs none, and a token must exist."""
    return ugid != ROOT and ("!" not in ugid or ugid in access.tokens)
