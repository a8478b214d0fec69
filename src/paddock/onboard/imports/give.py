"""Send an install that was stopped to standard output, as the stream of a state. Runs on the machine that has it."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO

from paddock.onboard.imports.folder import Contents, Unusable, Zip
from paddock.onboard.imports.mark import read_mark
from paddock.onboard.imports.retire import is_same, prove_unused
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.serve import output
from paddock.onboard.stream.layout import Json
from paddock.onboard.stream.send import Sender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload


def give(order: Json, out: FileIO) -> None:
    """Send a folder or an archive."""
    known = read_mark(order["path"])
    if known is None or not is_same(known, order["mark"]):
        raise Unusable(f"{order['path']} has no mark of this import")
    if order["archive"]:
        _archive(order, out)
    else:
        _folder(order, out)


def _folder(order: Json, out: FileIO) -> None:
    folder = order["path"]
    prove_unused(folder, order)
    largest = Contents(folder, order["databases"]).largest_database
    with staging(3 * largest, avoid=folder) as room:
        Sender({**order, "home": folder, "staging": room, "stopped": True}, out).send()


def _archive(order: Json, out: FileIO) -> None:
    archive = Zip(order["path"], order)
    with staging(2 * archive.bytes, avoid=order["path"]) as room:
        archive.unpack(f"{room}/home")
        sender = Sender({**order, "home": f"{room}/home", "staging": room, "stopped": True, "under": ""}, out)
        sender.left_out += [{"path": path, "why": "it is not a file"} for path in archive.links]
        sender.send()


@frozen
class GiveInstall:
    """Send an install that was stopped, as the stream of a state."""

    order: dict[str, object]
    streams = True

    def perform(self, _: Payload) -> None:
        give(self.order, FileIO(output().fileno(), "w", closefd=False))


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
