"""Tickets of users who log in with a password, and the tokens that protect them against cross-site requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from typing import Final

from pvebox.api.errors import CredentialsError

_LIFETIME: Final = 2 * 3600
# Nodes whose clocks differ by less than this accept each other's tickets.
_GRACE: Final = 300
_TICKET: Final = re.compile(r"(PVE:(\S+):([0-9A-F]{8}))::([^:\s]+)\Z", re.ASCII)
_CSRF: Final = re.compile(r"([A-Z0-9]{8}):(\S+)\Z", re.ASCII)


def issue(key: bytes, user: str) -> str:
    """Return a new ticket of a user, in the form `PVE:user:time::signature`."""
    plain = f"PVE:{user}:{int(time.time()):08X}"
    return f"{plain}::{_signature(key, plain)}"


def holder(key: bytes, ticket: str) -> str | None:
    """Return the user of a valid ticket, or None."""
    found = _TICKET.match(ticket)
    if not found or not hmac.compare_digest(found[4].encode(), _signature(key, found[1]).encode()):
        return None
    return found[2] if _is_fresh(found[3]) else None


def require_holder(key: bytes, ticket: str) -> str:
    """Return the user of a ticket, or raise Proxmox's error."""
    user = holder(key, ticket)
    if user is None:
        raise CredentialsError("permission denied - invalid PVE ticket")
    return user


def issue_csrf_token(key: bytes, user: str) -> str:
    """Return a token that a user's browser sends with each request that changes something."""
    stamp = f"{int(time.time()):08X}"
    return f"{stamp}:{_signature(key, f'csrf:{stamp}:{user}').rstrip('=')}"


def require_csrf_token(key: bytes, user: str, token: str | None) -> None:
    """Raise Proxmox's error unless the token belongs to the user and is fresh."""
    found = _CSRF.match(token or "")
    if found:
        wanted = _signature(key, f"csrf:{found[1]}:{user}").rstrip("=")
        if hmac.compare_digest(found[2].encode(), wanted.encode()) and _is_fresh(found[1]):
            return
    raise CredentialsError("Permission denied - invalid csrf token")


def _signature(key: bytes, text: str) -> str:
    return base64.b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode("ascii")


def _is_fresh(stamp: str) -> bool:
    try:
        age = time.time() - int(stamp, 16)
    except ValueError:
        return False
    return -_GRACE < age < _LIFETIME
