"""A temporary folder that is not in the folder of an install. Runs on the machine that has it."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from paddock.imports.folder import Unusable

_PREFIX = "paddock-import-"
_ROOM = 64 << 20  # bytes that stay free


@contextmanager
def staging(size: int, avoid: str) -> Iterator[str]:
    """Create a folder with room for so many bytes, and remove it at the end. Folders of killed imports are removed."""
    places = [os.environ.get("XDG_RUNTIME_DIR", ""), "/run", "/var/tmp", "/tmp"]  # noqa: S108 - mkdtemp creates it
    usable = [path for path in places if path and os.access(path, os.W_OK | os.X_OK) and not _is_in(path, avoid)]
    for path in usable:
        _remove_left(path)
    roomy = [path for path in usable if _room(path) >= size + _ROOM]
    if not roomy:
        raise Unusable(f"there is no room for {size >> 20} MiB in {' or '.join(usable) or 'any folder'}")
    made = tempfile.mkdtemp(prefix=_PREFIX, dir=roomy[0])
    # The copy of a database is made with the rights of its owner, in a folder of its own.
    os.chmod(made, 0o711)  # noqa: S103
    with _locked(made):
        try:
            yield made
        finally:
            shutil.rmtree(made)


def _is_in(path: str, folder: str) -> bool:
    return f"{os.path.realpath(path)}/".startswith(f"{folder}/")


def _room(path: str) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold a lock that ends with this process."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _remove_left(place: str) -> None:
    for name in os.listdir(place):
        path = os.path.join(place, name)
        with suppress(OSError):
            found = os.lstat(path)
            if name.startswith(_PREFIX) and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                with _locked(path):
                    shutil.rmtree(path)
