"""Freeze, write out and cut off mounted filesystems, and copy image files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pvebox.server.process import attempt, run

_FICLONE: Final = 0x40049409
_SHUTDOWN: Final = 0x8004587D
_WITHOUT_LOG_FLUSH: Final = 2
_WRITE_TIMEOUT: Final = 600


def write_out(points: Iterable[Path]) -> None:
    """Write the changes of mounted filesystems to their images, and of no other filesystem of the machine."""
    listed = [str(point) for point in points]
    if listed:
        run("sync", "--file-system", *listed, timeout=_WRITE_TIMEOUT)


@contextlib.contextmanager
def frozen(point: Path | None) -> Iterator[None]:
    """Freeze a mounted filesystem until the block ends: a copy of its image is then of one moment.

    The kernel does the same while LVM takes a snapshot.
    """
    if point is None:
        yield
        return
    try:
        run("fsfreeze", "--freeze", str(point), timeout=_WRITE_TIMEOUT)
        yield
    finally:
        thaw(point)


def thaw(point: Path) -> None:
    """Unfreeze a filesystem, if it is frozen."""
    attempt("fsfreeze", "--unfreeze", str(point))


def cut_off(point: Path) -> None:
    """Stop a mounted ext4 filesystem as a power cut does: nothing more is written, not even by the unmount."""
    descriptor = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG_FLUSH))
    finally:
        os.close(descriptor)


def copy_image(source: Path, target: Path) -> None:
    """Copy an image file, with shared blocks if the filesystem has them, else without the holes."""
    try:
        with source.open("rb") as old, target.open("xb") as new:
            if not _share_blocks(old.fileno(), new.fileno()):
                _copy_data(old.fileno(), new.fileno())
    except FileExistsError:
        raise
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _share_blocks(old: int, new: int) -> bool:
    try:
        fcntl.ioctl(new, _FICLONE, old)
    except OSError:
        return False
    return True


def _copy_data(old: int, new: int) -> None:
    size = os.fstat(old).st_size
    os.ftruncate(new, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # there is no data after this offset
            raise
        until = os.lseek(old, at, os.SEEK_HOLE)
        while at < until:
            at += os.copy_file_range(old, new, until - at, at, at) or (until - at)
