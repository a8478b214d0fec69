"""Open folders without following links. Runs on the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened(folder: str) -> Iterator[int]:
    """Open a folder."""
    descriptor = os.open(folder, FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def descended(top: int, folders: list[str]) -> Iterator[int]:
    """Open a folder below another, without following links."""
    current = os.dup(top)
    try:
        for name in folders:
            inside = os.open(name, FOLDER, dir_fd=current)
            os.close(current)
            current = inside
        yield current
    finally:
        os.close(current)
