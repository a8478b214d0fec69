"""Read files and folders that the agent may change while they are read."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any

LARGEST = 1 << 20  # bytes that are read of a file


def content(path: str) -> bytes:
    try:
        # Never through a link, and never waiting for a pipe, which an agent may have put in the place of a file.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return file.read(LARGEST) or b""
    except OSError:
        return b""


def text(path: str) -> str:
    return content(path).decode(errors="replace")


def rows(path: str) -> list[str]:
    """The lines of a file. Only a line feed ends one: an agent names its processes and mounts as it likes."""
    return [line for line in text(path).split("\n") if line]


def owner(path: str) -> dict[str, Any] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return {"mode": f"{stat.S_IMODE(found.st_mode):o}", "uid": found.st_uid, "gid": found.st_gid}


def digest(path: str) -> bytes:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(LARGEST), b""):
            found.update(block)
    return found.digest()
