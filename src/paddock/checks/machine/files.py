"""Read files and folders that the agent may change while they are read."""

from __future__ import annotations

import os
import stat
from typing import Any

LARGEST = 1 << 20  # bytes that are read of a file


def content(path: str, most: int = LARGEST) -> bytes:
    try:
        # The agent may have put a link or a pipe in place of the file: do not follow the one or wait for the other.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return file.read(most) or b""
    except OSError:
        return b""


def text(path: str, most: int = LARGEST) -> str:
    return content(path, most).decode(errors="replace")


def rows(path: str, most: int = LARGEST) -> list[str]:
    """Return the lines of a file. Only a line feed ends a line: names of processes and mounts may contain the rest."""
    return [line for line in text(path, most).split("\n") if line]


def owner(path: str) -> dict[str, Any] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return {"mode": f"{stat.S_IMODE(found.st_mode):o}", "uid": found.st_uid, "gid": found.st_gid}


def digest(path: str) -> bytes:
    import hashlib  # not needed by the quick checks

    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(LARGEST), b""):
            found.update(block)
    return found.digest()
