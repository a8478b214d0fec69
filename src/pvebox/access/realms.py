"""The authentication realms of a node: the accounts of its Linux system, and Proxmox's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pvebox.access import passwords
from pvebox.access.accounts import Access
from pvebox.api.errors import OperationError


@dataclass(frozen=True)
class Realm:
    """An authentication realm."""

    type: str
    comment: str


REALMS: Final = {
    "pam": Realm("pam", "Linux PAM standard authentication"),
    "pve": Realm("pve", "Proxmox VE authentication server"),
}
# The accounts of the simulated node's Linux system.
_SYSTEM_ACCOUNTS: Final = ("root",)


def set_password(access: Access, userid: str, password: str) -> None:
    """Set the password of a user, or raise Proxmox's error. The Linux accounts of this machine stay untouched."""
    name, _, realm = userid.rpartition("@")
    if realm not in REALMS:
        raise OperationError(f"auth domain '{realm}' does not exist")
    if realm == "pam" and name not in _SYSTEM_ACCOUNTS:
        raise OperationError(f"change password failed: usermod: user '{name}' does not exist")
    access.passwords = {**access.passwords, userid: passwords.hashed(password)}


def require_password(access: Access, userid: str, password: str) -> None:
    """Raise Proxmox's error unless this is the password of a user."""
    realm = userid.rpartition("@")[2]
    if realm not in REALMS:
        raise OperationError(f"auth domain '{realm}' does not exist")
    if not password:
        raise OperationError("no password")
    stored = access.passwords.get(userid)
    if stored is None and realm == "pve":
        raise OperationError("no password set")
    if stored is None or not passwords.matches(password, stored):
        raise OperationError("invalid credentials" if realm == "pve" else "Authentication failure")
