"""Read files that the agent may change meanwhile."""

from __future__ import annotations

import hashlib
import io
import os

from paddock.onboard.stream.layout import BLOCK


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

    def skip_to(self, position: int) -> None:
        """Skip a hole, which is not hashed: the hash is that of the pieces, behind their list."""
        self._left -= position - self._file.tell()
        self._file.seek(position)

    def begins_with(self, listed: bytes) -> None:
        self._hash.update(listed)

    def digest(self) -> str:
        """Return the hash of what was read."""
        return self._hash.hexdigest()


class Pieces(io.RawIOBase):
    """Reads a list of pieces, and then the pieces of a file with holes."""

    def __init__(self, listed: bytes, source: Exactly, pieces: list[tuple[int, int]]) -> None:
        self._ready = listed
        self._source = source
        self._pieces = list(pieces)
        source.begins_with(listed)

    def read(self, size: int = -1) -> bytes:
        data = self._ready[:size]
        self._ready = self._ready[size:]
        while len(data) < size and self._pieces:
            start, length = self._pieces[0]
            self._source.skip_to(start)
            more = self._source.read(min(size - len(data), length))
            data += more
            self._pieces[:1] = [(start + len(more), length - len(more))] if len(more) < length else []
        return data


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
    return pieces if pieces != [(0, size)] else None
