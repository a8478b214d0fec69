"""Open folders without following links, and read files that the agent may change meanwhile. Runs on the machine."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.onboard.stream.layout import BLOCK

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


class Exactly(io.RawIOBase):
    """Reads exactly so many bytes of a file: not more if it grows, and zeros if it shrinks. Hashes what it reads."""

    def __init__(self, file: io.FileIO, size: int) -> None:
        self._file = file
        self._left = size
        self._hash = hashlib.sha256()
        self.short = False

    def read(self, size: int = -1) -> bytes:
        size = min(size if size >= 0 else BLOCK, self._left)
        data = b""
        while len(data) < size and not self.short:
            more = self._file.read(size - len(data)) or b""
            self.short = not more
            data += more
        data += bytes(size - len(data))
        self._left -= len(data)
        self._hash.update(data)
        return data

    def hole(self, size: int) -> None:
        """Skip a hole. It reads as zeros, and these are part of the hash."""
        self._file.seek(size, os.SEEK_CUR)
        self._left -= size
        for start in range(0, size, BLOCK):
            self._hash.update(bytes(min(BLOCK, size - start)))

    def digest(self) -> str:
        """Return the hash of what was read."""
        return self._hash.hexdigest()


class Pieces(io.RawIOBase):
    """Reads a list of pieces, and then the pieces of a file with holes."""

    def __init__(self, listed: bytes, source: Exactly, pieces: list[tuple[int, int]]) -> None:
        self._ready = listed
        self._source = source
        self._pieces = list(pieces)
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        data = self._ready[:size]
        self._ready = self._ready[size:]
        while len(data) < size and self._pieces:
            start, length = self._pieces[0]
            self._skip_to(start)
            more = self._source.read(min(size - len(data), length))
            data += more
            self._at += len(more)
            self._pieces[:1] = [(self._at, length - len(more))] if len(more) < length else []
        return data

    def finish(self, size: int) -> None:
        """Skip the hole at the end of the file."""
        self._skip_to(size)

    def _skip_to(self, position: int) -> None:
        self._source.hole(position - self._at)
        self._at = position


def data_pieces(file: int, size: int) -> list[tuple[int, int]] | None:
    """Return the pieces of a file that are not holes, or None if it has no holes worth the list."""
    if os.fstat(file).st_blocks * 512 >= size:
        return None
    pieces = []
    at = 0
    try:
        while at < size:
            start = os.lseek(file, at, os.SEEK_DATA)
            at = min(os.lseek(file, start, os.SEEK_HOLE), size)
            if start < size:
                pieces.append((start, at - start))
    except OSError:
        pass  # the rest of the file is a hole
    finally:
        os.lseek(file, 0, os.SEEK_SET)
    # A file system that compresses takes fewer blocks for a file without holes too.
    return pieces if len(pieces) < 10_000 and pieces != [(0, size)] else None
