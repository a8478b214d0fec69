"""ext4's multi-mount protection (mmp): the block of an image that says whether the image is mounted.

The kernel writes a sequence number into this block while a filesystem is mounted, and the mark "clean" when it is
unmounted. A copy that was taken in between, and an image after a power cut, keep the number. The kernel then mounts
the image only after it has watched the block for a while: 42 s with the interval that the kernel uses, and never less
than 22 s. `wait_instead` is for tests that must not wait so long.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pvebox.server.process import run

_SUPERBLOCK_AT: Final = 1024
_FEATURES_AT, _BLOCK_SIZE_AT, _MMP_BLOCK_AT = 0x60, 0x18, 0x168
_HAS_MMP: Final = 0x100
_MAGIC: Final = 0x004D4D50
_CLEAN: Final = 0xFF4D4D50
_LENGTH: Final = 1024


@dataclass(frozen=True)
class Mark:
    """The content of an image's mmp block, and where it is."""

    at: int
    content: bytes

    @property
    def in_use(self) -> bool:
        """Whether the block says that the image is mounted."""
        magic, sequence = struct.unpack_from("<II", self.content)
        return bool(magic == _MAGIC and sequence != _CLEAN)


def read(image: Path) -> Mark | None:
    """Return the mark of an image, or None if the image has no filesystem with this protection."""
    with image.open("rb") as file:
        file.seek(_SUPERBLOCK_AT)
        superblock = file.read(1024)
        if len(superblock) < 1024 or not struct.unpack_from("<I", superblock, _FEATURES_AT)[0] & _HAS_MMP:
            return None
        (exponent,) = struct.unpack_from("<I", superblock, _BLOCK_SIZE_AT)
        (number,) = struct.unpack_from("<Q", superblock, _MMP_BLOCK_AT)
        at = number * (1024 << exponent)
        file.seek(at)
        content = file.read(_LENGTH)
        return Mark(at, content) if len(content) == _LENGTH else None


def is_in_use(image: Path) -> bool:
    """Return whether an image says that it is mounted."""
    mark = read(image)
    return mark is not None and mark.in_use


def put_back(image: Path, mark: Mark) -> None:
    """Write an earlier mark into an image that is not mounted. The mark includes the block's checksum."""
    with image.open("r+b") as file:
        file.seek(mark.at)
        file.write(mark.content)
        os.fsync(file.fileno())


def clear(image: Path) -> None:
    """Mark an image as clean. The image must not be mounted."""
    if is_in_use(image):
        run("tune2fs", "-f", "-E", "clear_mmp", str(image))


def wait_instead(image: Path, seconds: float) -> None:
    """If an image says that it is mounted, wait and mark it as clean, so that the kernel does not wait."""
    if is_in_use(image):
        time.sleep(seconds)
        clear(image)
