"""Verify a stream while it passes by."""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, Final

from paddock.errors import PaddockError
from paddock.stream import reading
from paddock.stream.layout import BadStream, Json

UNLIMITED: Final = 1 << 62
_LONGEST_TEXT: Final = 256 << 10


class Incomplete(PaddockError):
    """A stream ended early, or is damaged."""


class Verified(io.RawIOBase):
    """Reads a stream, and verifies in a thread what was read. It also takes the texts out of it."""

    def __init__(self, source: IO[bytes], texts: re.Pattern[str], progress: Callable[[int], None]) -> None:
        self._source = source
        self._pattern = texts
        self._progress = progress
        self._found: Json | None = None
        self._why: BadStream | None = None
        self._taken: dict[str, bytearray] = {}
        reading_end, writing_end = os.pipe()
        self._sink = os.fdopen(writing_end, "wb")
        self._thread = threading.Thread(target=self._verify, args=(os.fdopen(reading_end, "rb"),), daemon=True)
        self._thread.start()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        if data:
            self._progress(len(data))
            # If the pipe is broken, the stream is damaged: `manifest` says so.
            with suppress(BrokenPipeError):
                self._sink.write(data)
                self._sink.flush()
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _verify(self, source: IO[bytes]) -> None:
        with source:
            try:
                self._found = reading.check(source, UNLIMITED, self._take)
                while source.read(1 << 20):
                    pass  # a tar may be padded with zeros
            except BadStream as error:
                self._why = error

    def _take(self, path: str, size: int) -> Callable[[bytes], object] | None:
        if size > _LONGEST_TEXT or not self._pattern.fullmatch(path):
            return None
        self._taken[path] = bytearray()
        return self._taken[path].extend

    def manifest(self) -> Json:
        """Return the manifest, once the stream was read to its end; an error if it is not complete."""
        self._end()
        if self._found is None:
            raise Incomplete(f"the stream of the state is not complete: {self._why}")
        return self._found

    def _end(self) -> None:
        with suppress(BrokenPipeError):
            self._sink.close()
        self._thread.join()

    def texts(self) -> dict[str, str]:
        """Return the texts in the stream, by path."""
        return {path: bytes(data).decode(errors="replace") for path, data in sorted(self._taken.items())}

    def close(self) -> None:
        """End the thread, also if the stream was not read to its end."""
        self._end()
        super().close()


def check(stream: IO[bytes]) -> Json:
    """Read a stream completely and return its manifest; an error if it is not complete."""
    try:
        return reading.check(stream, UNLIMITED)
    except BadStream as error:
        raise Incomplete(f"the backup is not complete: {error}") from None


def described(manifest: Json) -> Json:
    """Return a manifest with the number and the size of its files in place of their names."""
    sizes = [entry["size"] for entry in manifest["entries"] if entry["type"] == "file"]
    rest = {key: value for key, value in manifest.items() if key != "entries"}
    return {**rest, "files": len(sizes), "bytes": sum(sizes)}
