"""Paths of ACLs: their normal form, and which paths an ACL may have."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = r"[A-Za-z0-9.\-_]+"
_ALLOWED: Final = re.compile(
    rf"/|/access(/(groups|realm)(/{_NAME})?)?|/mapping(/{_NAME}){{0,2}}|/(nodes|storage)(/{_NAME})?"
    rf"|/pool(/{_NAME}){{0,3}}|/sdn(/{_NAME}){{0,4}}|/vms(/[1-9][0-9]{{2,}})?"
)


def normalized(path: str) -> str | None:
    """Return a path with one slash at its start and none at its end, or None if it has other characters."""
    if not path:
        return None
    plain = "/" + re.sub(r"/+", "/", path).strip("/")
    return plain if re.fullmatch(r"[A-Za-z0-9.\-_/]+", plain) else None


def is_allowed(path: str) -> bool:
    """Return whether an ACL may have this path."""
    return _ALLOWED.fullmatch(path) is not None
