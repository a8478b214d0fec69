"""Write files that only the account of the sandbox can read, even if they existed with another mode."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


def write(path: Path, text: str) -> None:
    """Write a private file, replacing its content."""
    with os.fdopen(_opened(path, os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(text)


def open_append(path: Path) -> IO[bytes]:
    """Open a private file for appending."""
    file = os.fdopen(_opened(path, os.O_APPEND), "ab")
    file.seek(0, os.SEEK_END)
    return file


def _opened(path: Path, how: int) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor
