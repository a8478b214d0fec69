"""Mount and unmount. Mounts are found by their path, so that a server finds the mounts of an earlier server."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.server.process import CommandError, attempt, run

HELPER: Final = Path(__file__).with_name("inside.py")
_MOUNT_TIMEOUT: Final = 300


def mounted_below(directory: Path) -> list[Path]:
    """Return the mount points at or below a directory, innermost first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").rstrip("\n").split("\n"):
        point = line.split(" ")[4].encode().decode("unicode_escape")
        if point == str(directory) or point.startswith(f"{directory}/"):
            found.append(Path(point))
    return found[::-1]


def is_mounted(point: Path) -> bool:
    """Return whether a path is a mount point."""
    return point in mounted_below(point)


def mount_image(image: Path, point: Path, *, read_only: bool = False) -> None:
    """Mount an image file through a loop device, which the unmount frees.

    This may take most of a minute: see `mmp`. If this process ends before the mount, nothing is mounted.
    """
    point.mkdir(parents=True, exist_ok=True)
    # noload: a read-only mount must not change the image, so it does not replay the journal.
    options = "loop,ro,noload" if read_only else "loop"
    mount = ("mount", "-t", "ext4", "-o", options, str(image), str(point))
    run("setpriv", "--pdeathsig", "KILL", *mount, timeout=_MOUNT_TIMEOUT)


def mount_overlay(lower: Path, upper: Path, work: Path, point: Path) -> None:
    """Mount an overlay of a writable layer over a read-only one."""
    point.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    run("mount", "-t", "overlay", "-o", options, "overlay", str(point))


def mount_read_only_layers(layers: Sequence[Path], point: Path) -> None:
    """Mount one or more read-only layers as one tree, the first on top."""
    point.mkdir(parents=True, exist_ok=True)
    if len(layers) == 1:
        run("mount", "--bind", str(layers[0]), str(point))
        return
    run("mount", "-t", "overlay", "-o", f"lowerdir={':'.join(map(str, layers))}", "overlay", str(point))


def unmount(point: Path) -> None:
    """Unmount a path. Retry while a stopping container still uses it, then detach it lazily."""
    for pause in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8):
        ended = attempt("umount", str(point))
        if ended.ok or not is_mounted(point):
            return
        time.sleep(pause)
    ended = attempt("umount", "--lazy", str(point))
    if not ended.ok:
        raise CommandError(ended)


def loop_devices_of(image: Path) -> list[str]:
    """Return the loop devices of an image file."""
    listing = attempt("losetup", "--noheadings", "--output", "NAME", "--associated", str(image))
    return listing.out.split()


def mount_in_container(pid: int, source: str, target: str, *, read_only: bool) -> None:
    """Copy a mount of the host into a running container's mount namespace."""
    access = "ro" if read_only else "rw"
    ended = attempt(sys.executable, "-I", "-S", str(HELPER), "mount", str(pid), source, target, access)
    if not ended.ok:
        raise OperationError(f"mount of {target} failed: {ended.err.strip()}")
