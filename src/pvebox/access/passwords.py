"""Passwords of users, stored only as salted hashes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

_COST: Final = (1 << 14, 8, 1)


def hashed(password: str) -> str:
    """Return a salted scrypt hash of a password, with its parameters."""
    salt = secrets.token_bytes(16)
    return "$".join(("scrypt", *map(str, _COST), _text(salt), _text(_scrypt(password, salt, *_COST))))


def matches(password: str, stored: str) -> bool:
    """Return whether a password has this stored hash."""
    _, cost, block, parallel, salt, digest = stored.split("$")
    wanted = base64.b64decode(digest)
    found = _scrypt(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(found, wanted)


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, n=cost, r=block, p=parallel, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
