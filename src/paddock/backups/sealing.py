"""Compress a stream with zstd and encrypt it with age, and back. Both can be undone with `age`, `zstd` and `tar`."""

from __future__ import annotations

import io
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, Final

from paddock.base.errors import PaddockError
from paddock.file.secrets.files import identities

# pyrage and zstandard are imported where they are used: few commands need them.

_LEVEL: Final = 2  # level 3 takes a third longer for 7 % less, level 6 two and a half times as long for 17 % less
# Each thread keeps some pieces in memory.
_THREADS: Final = 2
_JOB: Final = 2 << 20
_BLOCK: Final = 1 << 20


class CannotOpen(PaddockError):
    """A backup cannot be decrypted or decompressed."""


def seal(stream: IO[bytes], target: IO[bytes], recipients: Sequence[str]) -> None:
    """Read a stream to its end, compress it, and encrypt it if there are recipients."""
    import zstandard

    settings = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL, threads=_THREADS, job_size=_JOB, write_checksum=True
    )
    compressor = zstandard.ZstdCompressor(compression_params=settings)
    if not recipients:
        compressor.copy_stream(stream, target, read_size=_BLOCK, write_size=_BLOCK)
        return
    from pyrage import encrypt_io

    with compressor.stream_reader(stream, read_size=_BLOCK) as compressed:
        encrypt_io(compressed, target, [recipient(each) for each in recipients])


@contextmanager
def opened(path: Path, *, encrypted: bool, window: int = 0) -> Iterator[IO[bytes]]:
    """Open a sealed file for reading: the stream that was sealed.

    Decompression takes at most ``window`` bytes of memory; without it, zstd's own limit of 128 MiB.
    """
    import zstandard

    with _file(path) as file, _decrypted(path, file) if encrypted else nullcontext(file) as compressed:
        unpacking = zstandard.ZstdDecompressor(max_window_size=window)
        reader: Any = unpacking.stream_reader(compressed, read_size=_BLOCK)

        def read(size: int) -> bytes:
            try:
                return bytes(reader.read(size))
            except zstandard.ZstdError as error:
                raise CannotOpen(f"{path} is damaged: {error}") from None

        try:
            yield io.BufferedReader(Read(read), _BLOCK)
        finally:
            reader.close()


def _file(path: Path) -> IO[bytes]:
    """Open a file. A pipe in its place would keep the reader waiting."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CannotOpen(f"{path} is not a file")
    return os.fdopen(descriptor, "rb")


@contextmanager
def _decrypted(path: Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Decrypt in a thread: age writes, and the decompression reads."""
    from pyrage import DecryptError, decrypt_io

    origin, keys = identities(path, None)
    reading, writing = os.pipe()
    failed: list[str] = []
    stopped = threading.Event()  # the reader has seen enough, and the pipe breaks

    def decrypt() -> None:
        with os.fdopen(writing, "wb") as sink:
            try:
                decrypt_io(file, sink, keys)
            except (DecryptError, OSError, ValueError) as error:
                if not stopped.is_set():
                    failed.append(str(error))

    with os.fdopen(reading, "rb") as source:
        working = threading.Thread(target=decrypt, daemon=True)
        working.start()
        try:
            yield source
        finally:
            stopped.set()
            source.close()
            working.join()
            if failed:
                raise CannotOpen(f"{path} cannot be decrypted with {origin}: {failed[0]}")


class Read(io.RawIOBase):
    """A stream whose bytes come from a function, which gets the largest number to return."""

    def __init__(self, some: Callable[[int], bytes]) -> None:
        self._some = some

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._some(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def recipient(text: str) -> Any:
    """Return an age recipient for pyrage."""
    from pyrage import ssh, x25519

    return x25519.Recipient.from_str(text) if text.startswith("age1") else ssh.Recipient.from_str(text)
