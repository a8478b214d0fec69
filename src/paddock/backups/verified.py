"""Verify a stream while it passes by."""

from __future__ import annotations

import io
import re
import tarfile
import threading
from collections.abc import Callable
from queue import Queue
from typing import IO, Any, Final, cast

from paddock.backups.history import Taken
from paddock.base.errors import PaddockError
from paddock.onboard.stream import reading
from paddock.onboard.stream.layout import BLOCK, HOLES, BadStream, Json

UNLIMITED: Final = 1 << 62
_WAITING: Final = 8  # blocks that were read and not verified yet


class Incomplete(PaddockError):
    """A stream ended early, or is damaged."""


class Verified(io.RawIOBase):
    """Reads a stream, and verifies it in a thread. It also collects the texts in it."""

    def __init__(self, source: IO[bytes], texts: re.Pattern[str], progress: Callable[[int], None]) -> None:
        self._source = source
        self._taken = Taken(texts)
        self._progress = progress
        self.length = 0  # bytes that were read
        self._found: tuple[Json, str] | None = None
        self._why: BadStream | None = None
        self._passed = _Passed()
        self._thread = threading.Thread(target=self._verify, daemon=True)
        self._thread.start()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        if data:
            self.length += len(data)
            self._progress(len(data))
            self._passed.put(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _verify(self) -> None:
        try:
            self._found = reading.read_all(cast(IO[bytes], self._passed), UNLIMITED, self._taken.take)
        except BadStream as error:
            self._why = error
        finally:
            # A tar may be padded with zeros; and of a damaged stream the rest does not matter.
            while self._passed.read(BLOCK):
                pass

    def manifest(self) -> Json:
        """Return the manifest, once the stream was read to its end; an error if it is not complete."""
        return self._result()[0]

    def manifest_hash(self) -> str:
        """Return the SHA-256 of the manifest, as it is in the stream."""
        return self._result()[1]

    def _result(self) -> tuple[Json, str]:
        self._end()
        if self._found is None:
            raise Incomplete(f"the stream of the state is not complete: {self._why}")
        return self._found

    def _end(self) -> None:
        self._passed.end()
        self._thread.join()

    def texts(self) -> dict[str, str]:
        """Return the texts in the stream, by path."""
        return self._taken.texts()

    def close(self) -> None:
        """End the thread, also if the stream was not read to its end."""
        self._end()
        super().close()


class _Passed:
    """What one thread has read, for another to read again. A pipe would copy it twice, in small pieces."""

    def __init__(self) -> None:
        self._queue: Queue[bytes] = Queue(_WAITING)
        self._data = memoryview(b"")
        self._ended = False  # for the one that writes
        self._last = False  # for the one that reads

    def put(self, data: bytes) -> None:
        """Pass data on. It waits if too much was not read yet."""
        self._queue.put(data)

    def end(self) -> None:
        """Say that nothing more comes."""
        if not self._ended:
            self._ended = True
            self._queue.put(b"")

    def read(self, size: int) -> bytes:
        """Read this number of bytes, or fewer at the end."""
        found: list[memoryview] = []
        while size and (self._data or self._next()):
            found.append(self._data[:size])
            self._data = self._data[size:]
            size -= len(found[-1])
        return b"".join(found)

    def _next(self) -> bool:
        if not self._last:
            self._data = memoryview(self._queue.get())
            self._last = not self._data
        return not self._last


def check(
    stream: IO[bytes],
    limit: int = UNLIMITED,
    progress: Callable[[int], None] = lambda count: None,
    *,
    signed: str | None = None,
) -> Json:
    """Read a stream completely and return its manifest; an error if it is not complete, or its files are too large.

    If a manifest was ``signed``, it has to be the one with that SHA-256.
    """

    def take(path: str, header: tarfile.TarInfo) -> Callable[[bytes], object] | None:
        # As progress, the zeros of a large hole would take hours.
        return None if HOLES in header.pax_headers else lambda data: progress(len(data))

    try:
        manifest, found = reading.read_all(stream, limit, take)
    except BadStream as error:
        raise Incomplete(f"the backup is not complete: {error}") from None
    if signed not in (None, found):
        raise Incomplete("the manifest of the backup is not the one that was signed")
    return manifest


def described(manifest: Json) -> Json:
    """Return a manifest with the number and the size of its files in place of their names."""
    sizes = [entry["size"] for entry in manifest["entries"] if entry["type"] == "file"]
    rest = {key: value for key, value in manifest.items() if key != "entries"}
    return {**rest, "files": len(sizes), "bytes": sum(sizes)}
