"""Store volumes as sparse ext4 images. An image is mounted once, even if several containers use it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from pvebox.runtime.contract import Say, Volume, VolumeBusyError, VolumeRef
from pvebox.runtime.lxc import filesystems, mmp
from pvebox.runtime.lxc.imagemounts import ImageMounts, base_of, has_filesystem
from pvebox.runtime.lxc.mounts import is_mounted, loop_devices_of, mounted_below, unmount
from pvebox.runtime.lxc.names import FIRST_ID, Names
from pvebox.server.process import attempt, run

_MADE: Final = "user.pvebox.made"
_LINGER: Final = 3.0
_CHECK_TIMEOUT: Final = 300


class Images:
    """The volumes of all storages, each an image file. An image stays mounted while it has a holder."""

    def __init__(self, names: Names, mmp_wait: float | None = None) -> None:
        self._names = names
        self._mounts = ImageMounts(names, mmp_wait)
        self._holders: dict[VolumeRef, set[str]] = {}
        self._mounting: dict[VolumeRef, threading.Lock] = {}
        self._cut_off: dict[VolumeRef, mmp.Mark] = {}
        self._idle_since: dict[VolumeRef, float] = {}
        self._lock = threading.RLock()

    def on(self, node: str, storage: str) -> list[Volume]:
        """Return the volumes of a storage, including snapshots."""
        root = self._names.volumes(node, storage)
        found = []
        for image in sorted(root.rglob("*.img")):
            name = str(image.relative_to(root)).removesuffix(".img")
            volume = self.get(VolumeRef(self._names.sharing.home(node, storage), storage, name))
            if volume is not None:
                found.append(volume)
        return found

    def get(self, ref: VolumeRef) -> Volume | None:
        """Return the volume, or None if its image does not exist."""
        image = self._names.image(ref)
        try:
            facts = image.stat()
        except FileNotFoundError:
            return None
        try:
            made = int(os.getxattr(image, _MADE))
        except OSError:
            made = int(facts.st_mtime)
        return Volume(ref, facts.st_size, made, has_filesystem(image))

    def allocate(self, ref: VolumeRef, size: int) -> None:
        """Create a sparse image."""
        image = self._names.image(ref)
        image.parent.mkdir(parents=True, exist_ok=True)
        with image.open("xb") as file:
            file.truncate(size)
        self._note_time(image)

    def format(self, ref: VolumeRef) -> None:
        """Create an ext4 filesystem as Proxmox does, owned by the containers' root."""
        owner = f"root_owner={FIRST_ID}:{FIRST_ID}"
        run("mkfs.ext4", "-q", "-F", "-O", "mmp", "-E", owner, str(self._names.image(ref)))

    def remove(self, ref: VolumeRef) -> None:
        """Delete an image. Raise if it has a holder."""
        with self._lock:
            if self._holders.get(ref):
                raise VolumeBusyError(ref.name)
            self._unmount(ref)
            image = self._names.image(ref)
            image.unlink(missing_ok=True)
            base_of(image).unlink(missing_ok=True)

    def rename(self, ref: VolumeRef, name: str) -> None:
        """Rename an image. Raise if it has a holder."""
        with self._lock:
            if self._holders.get(ref):
                raise VolumeBusyError(ref.name)
            self._unmount(ref)
            old, new = self._names.image(ref), self._names.image(replace(ref, name=name))
            new.parent.mkdir(parents=True, exist_ok=True)
            old.rename(new)
            if base_of(old).exists():
                base_of(old).rename(base_of(new))

    def resize(self, ref: VolumeRef, size: int, say: Say, *, online: bool) -> None:
        """Grow an image, and its filesystem too unless it is mounted and `online` is not set."""
        image = self._names.image(ref)
        # The lock of all volumes is not held, because e2fsck may wait for most of a minute.
        with self._mounting_of(ref):
            self._unmount_if_idle(ref)
            os.truncate(image, size)
            loops = loop_devices_of(image)
            for device in loops:
                run("losetup", "--set-capacity", device)
            if online and loops:
                _say_all(say, attempt("resize2fs", loops[0]).out)
                return
            if loops:
                device = f"/dev/pve/{ref.name}"
                say(f"{device} is in use.", "e2fsck: Cannot continue, aborting.", "")
                say(
                    f"Failed to update the container's filesystem: command 'e2fsck -f -y {device}' failed: exit code 8",
                    "",
                )
                return
            self._mounts.wait_instead_of_kernel(image)
            _say_all(say, attempt("e2fsck", "-f", "-y", str(image), timeout=_CHECK_TIMEOUT).out)
            _say_all(say, attempt("resize2fs", str(image), timeout=_CHECK_TIMEOUT).out)

    def mounted(self, ref: VolumeRef) -> bool:
        """Return whether a running container mounts the volume."""
        with self._lock:
            return bool(self._holders.get(ref))

    def copy(self, source: VolumeRef, target: VolumeRef, *, fresh: bool = False) -> None:
        """Copy the current content of an image, and of a mounted one also the mark that says so, unless `fresh`."""
        old, new = self._names.image(source), self._names.image(target)
        new.parent.mkdir(parents=True, exist_ok=True)
        with self._mounting_of(source), self._lock:
            self._unmount_if_idle(source)
            with filesystems.frozen(self._mounts.point_of(source)):
                filesystems.copy_image(old, new)
            if base_of(old).exists():
                os.link(base_of(old), base_of(new))
        if fresh:
            mmp.clear(new)
        self._note_time(new)

    def link(self, base: VolumeRef, target: VolumeRef, size: int | None = None) -> None:
        """Create an image that stores only the changes to a base. The base may be deleted afterwards."""
        self._unmount_if_idle(base)
        old, new = self._names.image(base), self._names.image(target)
        if base_of(old).exists():
            # The base stores only changes itself. Stacking three layers is not supported, so copy the base instead.
            self.copy(base, target, fresh=True)
            return
        self.allocate(target, old.stat().st_size if size is None else size)
        self.format(target)
        os.link(old, base_of(new))

    def hold(self, ref: VolumeRef, holder: str) -> Path:
        """Mount a volume for a holder and return the mount point. A snapshot is mounted read-only."""
        with self._lock:
            self._holders.setdefault(ref, set()).add(holder)
            self._idle_since.pop(ref, None)
        point = self._names.mount_point(ref)
        try:
            # The lock of all volumes is not held, because the kernel may wait for most of a minute.
            with self._mounting_of(ref):
                if not is_mounted(point):
                    self._mounts.mount(ref)
        except BaseException:
            with self._lock:
                self._let_go(ref, holder, linger=False)
            raise
        return point

    def _mounting_of(self, ref: VolumeRef) -> threading.Lock:
        """Return the lock under which a volume is mounted. It is never taken by a holder of the lock of all volumes."""
        with self._lock:
            return self._mounting.setdefault(ref, threading.Lock())

    def adopt(self, ref: VolumeRef, holder: str) -> None:
        """Record the holder of a volume that an earlier server mounted."""
        with self._lock:
            self._holders.setdefault(ref, set()).add(holder)

    def release(self, holder: str, *, linger: bool = False) -> None:
        """Release all volumes of a holder, and unmount those without another holder.

        With `linger` they are unmounted some seconds later: unmounting waits until all data is written, and a new
        volume is usually mounted again soon.
        """
        with self._lock:
            for ref, holders in list(self._holders.items()):
                if holder in holders:
                    self._let_go(ref, holder, linger=linger)

    def _let_go(self, ref: VolumeRef, holder: str, *, linger: bool) -> None:
        holders = self._holders[ref]
        holders.discard(holder)
        if holders:
            return
        del self._holders[ref]
        if linger:
            self._idle_since[ref] = time.monotonic()
        else:
            self._unmount(ref)

    def write_out(self, holder: str) -> None:
        """Write the changes of a holder's volumes to their images."""
        with self._lock:
            filesystems.write_out(self._names.mount_point(ref) for ref in self._held_by(holder))

    def cut_off(self, holder: str) -> None:
        """Stop a holder's volumes as a power cut does. Their images will say that they are mounted."""
        with self._lock:
            for ref in self._held_by(holder):
                point = self._mounts.point_of(ref)
                mark = mmp.read(self._names.image(ref))
                if point is not None and mark is not None and ref not in self._cut_off:
                    filesystems.cut_off(point)
                    self._cut_off[ref] = mark

    def _held_by(self, holder: str) -> list[VolumeRef]:
        return [ref for ref, holders in self._holders.items() if holder in holders]

    def unmount_idle(self, after: float = _LINGER) -> None:
        """Unmount the volumes that have had no holder for this many seconds."""
        with self._lock:
            for ref, since in list(self._idle_since.items()):
                if time.monotonic() - since >= after:
                    self._unmount(ref)

    def recover(self) -> None:
        """Unfreeze the volumes that an earlier server left mounted, and unmount those that have no holder."""
        with self._lock:
            for point in mounted_below(self._names.mounts):
                filesystems.thaw(point)
            held = {self._names.mount_point(ref) for ref in self._holders}
            layers = any(base_of(self._names.image(ref)).exists() for ref in self._holders)
            for point in mounted_below(self._names.mounts):
                kept = ".bind" in point.parts or (layers and ".layer" in point.parts)
                if point not in held and not kept:
                    unmount(point)

    def _unmount(self, ref: VolumeRef) -> None:
        self._idle_since.pop(ref, None)
        self._mounts.unmount(ref, (*self._holders, *self._idle_since))
        mark = self._cut_off.pop(ref, None)
        if mark is not None:
            # The unmount has marked the image as clean, although it wrote nothing else.
            mmp.put_back(self._names.image(ref), mark)

    def _unmount_if_idle(self, ref: VolumeRef) -> None:
        with self._lock:
            if ref in self._idle_since:
                self._unmount(ref)

    @staticmethod
    def _note_time(image: Path) -> None:
        with contextlib.suppress(OSError):
            os.setxattr(image, _MADE, str(int(time.time())).encode())


def _say_all(say: Say, text: str) -> None:
    say(*text.rstrip("\n").split("\n"))
