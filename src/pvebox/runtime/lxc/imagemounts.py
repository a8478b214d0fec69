"""Mount image files. An image that stores only the changes to a base is mounted as an overlay over its base."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.guests.storage import is_snapshot
from pvebox.runtime.contract import NotMountableError, VolumeRef
from pvebox.runtime.lxc import mmp
from pvebox.runtime.lxc.mounts import (
    is_mounted,
    loop_devices_of,
    mount_image,
    mount_overlay,
    mount_read_only_layers,
    mounted_below,
    unmount,
)
from pvebox.runtime.lxc.names import FIRST_ID, Names

_MAGIC_AT: Final = 1080
_MAGIC: Final = b"\x53\xef"


def base_of(image: Path) -> Path:
    """Return the path of an image's base, which exists if the image stores only changes."""
    return image.with_name(image.name.removesuffix(".img") + ".base")


def has_filesystem(image: Path) -> bool:
    """Return whether an image has an ext4 filesystem."""
    with image.open("rb") as file:
        file.seek(_MAGIC_AT)
        return file.read(2) == _MAGIC


class ImageMounts:
    """The mounts of images.

    Mounting an image that says it is mounted elsewhere takes `mmp_wait` seconds; None leaves the wait to the kernel.
    """

    def __init__(self, names: Names, mmp_wait: float | None) -> None:
        self._names = names
        self._mmp_wait = mmp_wait
        self._bases = threading.Lock()

    def mount(self, ref: VolumeRef) -> None:
        """Mount a volume at its mount point, a snapshot read-only."""
        image, point = self._names.image(ref), self._names.mount_point(ref)
        if not image.exists():
            raise OperationError(f"no such logical volume pve/{ref.name}")
        if not has_filesystem(image):
            raise NotMountableError(ref.name)
        read_only = is_snapshot(ref.name)
        if not read_only:
            self.wait_instead_of_kernel(image)
        if not base_of(image).exists():
            mount_image(image, point, read_only=read_only)
            return
        upper = self._names.layer(ref)
        if not is_mounted(upper):
            mount_image(image, upper, read_only=read_only)
        lower = self._mounted_base(base_of(image))
        if read_only:
            # A layer that was never mounted for writing has no directory of changes yet.
            mount_read_only_layers([layer for layer in (upper / "up", lower) if layer.exists()], point)
        else:
            _make_directories(upper)
            mount_overlay(lower, upper / "up", upper / "work", point)

    def unmount(self, ref: VolumeRef, others: Iterable[VolumeRef]) -> None:
        """Unmount a volume, and its base unless another mounted volume needs it."""
        point, upper = self._names.mount_point(ref), self._names.layer(ref)
        if is_mounted(point):
            unmount(point)
        with contextlib.suppress(OSError):
            point.rmdir()
        if is_mounted(upper):
            unmount(upper)
            upper.rmdir()
            self._unmount_bases_except(others)

    def point_of(self, ref: VolumeRef) -> Path | None:
        """Return the mount point of a volume's image, or None. Its overlay has another mount point."""
        for point in (self._names.layer(ref), self._names.mount_point(ref)):
            if is_mounted(point):
                return point
        return None

    def wait_instead_of_kernel(self, image: Path) -> None:
        """If an image says that it is mounted, wait for `mmp_wait` seconds, so that the kernel does not wait."""
        # An image with a loop device is still mounted somewhere. Only the kernel may touch its mark.
        if self._mmp_wait is not None and not loop_devices_of(image):
            mmp.wait_instead(image, self._mmp_wait)

    def _mounted_base(self, base: Path) -> Path:
        point = self._names.mounts / ".layer" / f"base-{base.stat().st_ino}"
        with self._bases:
            if not is_mounted(point):
                mount_image(base, point, read_only=True)
        return point

    def _unmount_bases_except(self, others: Iterable[VolumeRef]) -> None:
        bases = [base_of(self._names.image(ref)) for ref in others]
        needed = {f"base-{base.stat().st_ino}" for base in bases if base.exists()}
        with self._bases:
            for point in mounted_below(self._names.mounts / ".layer"):
                if point.name.startswith("base-") and point.name not in needed:
                    unmount(point)
                    point.rmdir()


def _make_directories(upper: Path) -> None:
    for name, mode in (("up", 0o755), ("work", 0o700)):
        layer = upper / name
        if not layer.exists():
            layer.mkdir(mode=mode)
            os.chown(layer, FIRST_ID, FIRST_ID)
