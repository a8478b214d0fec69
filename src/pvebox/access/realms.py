"""The authentication realms of a node, and the passwords of users, stored only as salted hashes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

from pvebox.access.accounts import Access
from pvebox.api.errors import OperationError

# The accounts of the node's Linux system, and Proxmox's own. A realm's name is also its type.
REALMS: Final = {"pam": "Linux PAM standard authentication", "pve": "Proxmox VE authentication server"}
# The accounts of the simulated node's Linux system.
_SYSTEM_ACCOUNTS: Final = ("root",)
_COST: Final = (1 << 14, 8, 1)


def set_password(access: Access, userid: str, password: str) -> None:
    """Set the password of a user, or raise Proxmox's error. The Linux accounts of this machine stay untouched."""
    name, _, realm = userid.rpartition("@")
    if realm not in REALMS:
        raise OperationError(f"auth domain '{realm}' does not exist")
    if realm == "pam" and name not in _SYSTEM_ACCOUNTS:
        raise OperationError(f"change password failed: usermod: user '{name}' does not exist")
    access.passwords = {**access.passwords, userid: hashed(password)}


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
    if stored is None or not _matches(password, stored):
        raise OperationError("invalid credentials" if realm == "pve" else "Authentication failure")


def hashed(password: str) -> str:
    """Return a salted scrypt hash of a password, with its parameters."""
    salt = secrets.token_bytes(16)
    return "$".join(("scrypt", *map(str, _COST), _text(salt), _text(_scrypt(password, salt, *_COST))))


def _matches(password: str, stored: str) -> bool:
    """Return whether a password has this stored hash."""
    _, cost, block, parallel, salt, digest = stored.split("$")
    wanted = base64.b64decode(digest)
    found = _scrypt(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(found, wanted)


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, n=cost, r=block, p=parallel, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
