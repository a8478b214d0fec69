"""Read input from machines, archives, repositories and models, with a limit on its size."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import IO, Any, Final

from paddock.base.errors import PaddockError

MOST_VALUES: Final = 1_000_000
_BLOCK: Final = 1 << 20


class TooLarge(PaddockError):
    """There is more to read than Paddock reads."""


def at_most(stream: IO[bytes], most: int, what: str) -> bytes:
    """Read a stream to its end. Raise if it has more bytes than that."""
    found = bytearray()
    while data := stream.read(min(_BLOCK, most + 1 - len(found))):
        found += data
        if len(found) > most:
            raise TooLarge(f"{what} is longer than {in_words(most)}")
    return bytes(found)


def content(path: Path, most: int) -> bytes:
    """Return the content of a file. Raise if it is too long, or no file: a pipe would keep the reader waiting."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a file")
        return at_most(file, most, str(path))


def parsed(text: bytes | str, most: int = MOST_VALUES) -> Any:
    """Return the value of JSON. Raise ``ValueError`` if it is none, too deep, or has too many values.

    A value takes up to a hundred times the memory of its text. Commas in texts count as values too.
    """
    comma, array, object_ = (b",", b"[", b"{") if isinstance(text, bytes) else (",", "[", "{")
    if text.count(comma) + text.count(array) + text.count(object_) > most:  # type: ignore[arg-type]
        raise ValueError(f"it has more than {most} values")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is too deep") from None


class Rationed:
    """A file with a limit on the bytes read, for a library that trusts sizes in headers, such as `tarfile`."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file = file
        self._most = self._left = most
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Read this number of bytes. Raise if it exceeds the rest of the limit."""
        if size < 0 or size > self._left:
            raise TooLarge(f"it has a header of more than {in_words(self._most)}")
        self._left -= size
        return self._file.read(size)

    def renew(self) -> None:
        """Restore the whole limit."""
        self._left = self._most


def in_words(size: int) -> str:
    """Return a number of bytes in words."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
