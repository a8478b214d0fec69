"""Open folders without following links. Runs on the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # the entry may be a pipe: opening it must not wait


def open_quietly(name: str, flags: int, dir_fd: int | None = None) -> int:
    """Open something without a change of its access time, where this account may ask for that."""
    try:
        return os.open(name, flags | os.O_NOATIME, dir_fd=dir_fd)
    except PermissionError:
        return os.open(name, flags, dir_fd=dir_fd)


@contextmanager
def opened(folder: str) -> Iterator[int]:
    """Open a folder."""
    descriptor = open_quietly(folder, FOLDER)
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
            inside = open_quietly(name, FOLDER, current)
            os.close(current)
            current = inside
        yield current
    finally:
        os.close(current)
