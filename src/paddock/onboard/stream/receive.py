"""Unpack a stream from standard input into a new folder, and verify it completely. Runs on the machine.

The argument is JSON: `folder` (must not exist), `owner` (uid and gid of the agent here; without it, of this process),
`limit` (bytes), `of` (what the manifest has to say, such as `agent`), `manifest` (its SHA-256, if that was signed).
Nothing is written outside the folder, whatever the stream says. Owners and modes are set after everything was verified.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from paddock.onboard.files import FOLDER, descended
from paddock.onboard.stream.layout import BadStream, Json, parts_of
from paddock.onboard.stream.reading import Reader, is_zero

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
ROOM = 64 << 20  # bytes that stay free
MEMORY = 1 << 30


class NoRoom(Exception):
    """The file system of the state has no room for the stream."""


class Target:
    """A new folder that a stream is unpacked into. Only this process can enter it until it is finished."""

    def __init__(self, folder: str) -> None:
        os.mkdir(folder, 0o700)
        self._top = os.open(folder, FOLDER)

    def folder(self, path: str) -> None:
        """Create a folder, unless it exists already."""
        with self._above(path) as (above, name), suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)

    @contextmanager
    def file(self, path: str) -> Iterator[SparseFile]:
        """Create a file. It replaces an earlier one: the last entry of a name is the valid one."""
        with self._above(path) as (above, name):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=above)
            descriptor = os.open(name, _NEW, 0o600, dir_fd=above)
            try:
                file = SparseFile(descriptor)
                yield file
                file.finish()
            finally:
                os.close(descriptor)

    def remove(self, path: str) -> None:
        """Remove a file that is not part of the state after all."""
        with self._above(path) as (above, name):
            os.unlink(name, dir_fd=above)

    def link(self, path: str, target: str) -> None:
        """Create a link. Links are created last, so that no other entry can lead through one."""
        with self._above(path) as (above, name):
            os.symlink(target, name, dir_fd=above)

    def set_owner(self, path: str, uid: int, gid: int, mode: int | None, mtime: int) -> None:
        """Set owner, mode and time of an entry."""
        with self._above(path) as (above, name):
            if os.geteuid() == 0:
                os.chown(name, uid, gid, dir_fd=above, follow_symlinks=False)
            if mode is not None:
                # The entry is a file or folder that this process created, in folders that only it can enter.
                os.chmod(name, mode, dir_fd=above)
            os.utime(name, (mtime, mtime), dir_fd=above, follow_symlinks=False)

    def sync(self) -> None:
        """Write everything to disk, at once: one file after the other takes ten times as long."""
        library = ctypes.CDLL(None, use_errno=True)
        if library.syncfs(self._top):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def expect_room(self, size: int) -> None:
        """Raise unless so many bytes can be written, and some stay free for the agent."""
        found = os.fstatvfs(self._top)
        free = found.f_bavail * found.f_frsize
        if size + ROOM > free:
            needed = f"{(size >> 20) + 1} MiB more and {ROOM >> 20} MiB that stay free"
            raise NoRoom(f"there is no room for it: it needs {needed}, and there are {free >> 20} MiB")

    @contextmanager
    def _above(self, path: str) -> Iterator[tuple[int, str]]:
        *folders, name = parts_of(path)
        try:
            with descended(self._top, folders) as above:
                yield above, name
        except (FileNotFoundError, NotADirectoryError):
            raise BadStream(f"the folder of {path!r} is missing") from None


class SparseFile:
    """Writes a file with holes where its content is zeros."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = 0

    def write(self, data: bytes) -> None:
        """Write the next block."""
        if is_zero(data):
            os.lseek(self._descriptor, len(data), os.SEEK_CUR)
        else:
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]
        self._size += len(data)

    def skip(self, size: int) -> None:
        """Leave a hole."""
        os.lseek(self._descriptor, size, os.SEEK_CUR)
        self._size += size

    def finish(self) -> None:
        """Set the size, which may end in a hole."""
        os.truncate(self._descriptor, self._size)


class Owners:
    """The owners of a restored state: the agent of this machine in place of the agent in the stream, and root.

    Owners are mapped by name, never by number. Whoever else owned a file, it belongs to the agent here.
    """

    def __init__(self, uid: int, gid: int) -> None:
        self._uid = uid
        self._gid = gid

    def of(self, entry: Json) -> tuple[int, int]:
        """Return user and group of an entry."""
        return 0 if entry["owner"] == "root" else self._uid, 0 if entry["group"] == "root" else self._gid

    def mode(self, entry: Json) -> int:
        """Return the mode of an entry. No file of a state runs with the rights of its owner or its group."""
        mode = int(entry["mode"], 8) & 0o7777 & ~stat.S_ISUID
        return mode if entry["type"] == "folder" else mode & ~stat.S_ISGID


def receive(order: Json, stream: IO[bytes]) -> Json:
    """Unpack and verify a stream; return its manifest."""
    target = Target(order["folder"])
    target.expect_room(order.get("needed", 0))
    reader = Reader(stream, order["limit"])
    for path, header in reader:
        if header.isdir():
            target.folder(path)
        elif header.isreg():
            with target.file(path) as file:

                def write(data: bytes, file: SparseFile = file) -> None:
                    target.expect_room(len(data))
                    file.write(data)

                reader.copy(path, header, write, file.skip)
    manifest = reader.manifest()
    if order.get("manifest") not in (None, reader.manifest_hash):
        raise BadStream("its manifest is not the one that was signed")
    for key, wanted in order.get("of", {}).items():
        if manifest.get(key) != wanted:
            raise BadStream(f"its {key} is {str(manifest.get(key))[:80]!r}, not {wanted!r}")
    for path in reader.superseded(manifest):
        target.remove(path)
    links = [entry for entry in manifest["entries"] if entry["type"] == "link"]
    for entry in links:
        target.link(entry["path"], entry["target"])
    owners = Owners(*(order["owner"] or (os.geteuid(), os.getegid())))
    # Folders last, the deepest first: a folder's mode may forbid what is still to be done in it.
    for entry in sorted(manifest["entries"], key=lambda each: (each["type"] == "folder", -each["path"].count("/"))):
        mode = None if entry["type"] == "link" else owners.mode(entry)
        target.set_owner(entry["path"], *owners.of(entry), mode, entry["mtime"])
    target.sync()
    return manifest
