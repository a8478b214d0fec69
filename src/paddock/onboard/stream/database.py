"""Copy a database that the agent may be writing to, and count in it. Runs on the machine."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import resource
import shutil
import signal
import socket
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from paddock.onboard.files import FILE, FOLDER, open_quietly, opened
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import Refusal
from paddock.onboard.state.child import as_agent, ids_of
from paddock.onboard.stream.layout import BLOCK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload

SQLITE = b"SQLite format 3\0"
_COPIES = ".copy-"  # begins the names of folders with copies
ROOM = 64 << 20  # bytes that stay free beside the copy of a database
COPY_SECONDS = 300
SLOWEST = 4 << 20  # bytes of a database that are copied in a second


class CannotCopy(Exception):
    """SQLite cannot copy a database."""


def is_database(folder: int, name: str) -> bool:
    """Return whether a file of a folder is a database of SQLite."""
    try:
        file = open_quietly(name, FILE, folder)
    except OSError:
        return False
    with os.fdopen(file, "rb") as opened_file:
        return stat.S_ISREG(os.fstat(file).st_mode) and opened_file.read(len(SQLITE)) == SQLITE


class DatabaseOrder:
    """A database to copy, where to, how SQLite opens it, and whether SQLite is to check the copy."""

    def __init__(self, path: str, copy: str, mode: str, examine: bool) -> None:
        self.path = path
        self.copy = copy
        self.mode = mode
        self.examine = examine


def copied_database(order: DatabaseOrder, found: os.stat_result) -> tuple[int, int, str]:
    """Copy a database with SQLite's own backup; return the open copy, its schema version, and what is wrong with it.

    With the mode `rw`, SQLite first finishes what a writer left unfinished. The agent wrote the database and the files
    beside it, and SQLite believes them. So the copy is made in a process with no more rights than the owner of the
    database, and this process gets only the open file.
    """
    here, there = socket.socketpair()
    child = os.fork()
    if not child:
        status = 1
        try:
            here.close()
            _become(found)
            _copy_in_child(order, there)
            status = 0
        except (OSError, sqlite3.Error, ValueError) as error:
            with suppress(OSError):
                there.sendall(f"-{error}".encode()[:500])
        finally:
            os._exit(status)
    there.close()
    seconds = COPY_SECONDS + found.st_size / SLOWEST
    try:
        with closing(here):
            here.settimeout(seconds)
            said, passed, _, _ = here.recvmsg(600, socket.CMSG_LEN(4))
    except TimeoutError:
        raise CannotCopy(f"its copy was not ready after {seconds:.0f} s") from None
    finally:
        os.kill(child, signal.SIGKILL)  # it has ended, or the agent, whose rights it has, has stopped it
        os.waitpid(child, 0)
    files = array.array("i")
    for _, _, data in passed:
        files.frombytes(data[: len(data) - len(data) % files.itemsize])
    if not said or said.startswith(b"-") or len(files) != 1:
        raise CannotCopy(said[1:].decode(errors="replace") or "it ended early")
    schema, _, wrong = said.decode(errors="replace").partition(" ")
    return files[0], int(schema), wrong


def _become(found: os.stat_result) -> None:
    """Take the rights of a file's owner."""
    if os.geteuid() == 0 and found.st_uid != 0:
        os.setgroups([])
        os.setgid(found.st_gid)
        os.setuid(found.st_uid)


def _copy_in_child(order: DatabaseOrder, parent: socket.socket) -> None:
    path = "".join(each if each not in "?#%" else f"%{ord(each):02x}" for each in order.path)
    uri, copy = f"file:{path}?mode={order.mode}", order.copy
    with closing(sqlite3.connect(uri, uri=True, timeout=60)) as source:
        pages, size = (
            source.execute("PRAGMA page_count").fetchone()[0],
            source.execute("PRAGMA page_size").fetchone()[0],
        )
        room = os.statvfs(os.path.dirname(copy))
        if pages * size + ROOM > room.f_bavail * room.f_frsize:
            raise ValueError(f"there is no room for a copy of {pages * size >> 20} MiB")
        with closing(sqlite3.connect(copy)) as target:
            # The copy is read once and then removed: it need not survive a crash.
            target.execute("PRAGMA journal_mode=OFF")
            target.execute("PRAGMA synchronous=OFF")
            source.backup(target)
            schema = _number(target, "user_version")
            wrong = _damage(target) if order.examine else ""
    file = os.open(copy, os.O_RDONLY | os.O_NOFOLLOW)
    parent.sendmsg(
        [f"{schema} {wrong}".encode()[:500]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
    )


def _number(database: sqlite3.Connection, name: str) -> int:
    return int(database.execute(f"PRAGMA {name}").fetchone()[0])


def _damage(database: sqlite3.Connection) -> str:
    """Return the first thing that SQLite finds wrong with a database."""
    try:
        found = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    return "" if found == "ok" else found


def copied_files(folder: int, name: str, into: str, found: os.stat_result) -> str:
    """Copy the files of a database that nobody writes to; return the path of the copy.

    SQLite would create or change files beside the database. So it gets a copy, and the original stays as it is.
    """
    path = f"{into}/source.db"
    for suffix in ("", "-wal", "-journal"):
        try:
            source = open_quietly(f"{name}{suffix}", FILE, folder)
        except FileNotFoundError:
            continue
        with os.fdopen(source, "rb") as original:
            size = os.fstat(source).st_size
            room = os.statvfs(into)
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise CannotCopy(f"{name}{suffix} is not a file")
            if size + ROOM > room.f_bavail * room.f_frsize:
                raise OSError(errno.ENOSPC, f"there is no room for a copy of {size >> 20} MiB")
            with open(f"{path}{suffix}", "xb") as copy:
                shutil.copyfileobj(original, copy, BLOCK)
                if os.geteuid() == 0:
                    os.fchown(copy.fileno(), found.st_uid, found.st_gid)
    return path


@contextmanager
def staged(folder: str, uid: int, gid: int) -> Iterator[str]:
    """Create a temporary folder for the copy of a database, and remove it when the block ends.

    It is locked meanwhile. Without a lock, it was left by a run that was killed.
    """
    try:
        made = tempfile.mkdtemp(prefix=_COPIES, dir=folder)
    except OSError as error:
        raise CannotCopy(f"a copy cannot be made: {error.strerror}") from None
    try:
        with opened(made) as inside:
            fcntl.flock(inside, fcntl.LOCK_EX)
            if os.geteuid() == 0:
                os.fchown(inside, uid, gid)
            yield made
    finally:
        _remove(made)


def remove_left(folder: str) -> None:
    """Remove the copies that killed runs have left."""
    for name in os.listdir(folder):
        if name.startswith(_COPIES):
            with suppress(OSError), opened(f"{folder}/{name}", FOLDER) as inside:
                fcntl.flock(inside, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(f"{folder}/{name}")


def _remove(folder: str) -> None:
    with suppress(OSError), opened(folder, FOLDER) as inside:
        for name in os.listdir(inside):
            with suppress(OSError):
                os.unlink(name, dir_fd=inside)
        os.rmdir(folder)


SECONDS = 10
MEMORY = 512 << 20


@frozen
class CountMessages:
    """Count in a database of the agent, with its rights; None if it cannot be counted."""

    database: str
    query: str  # with one value, the time since which is counted
    since: int
    account: str  # empty if the agent has the rights of the account that supervises it

    def perform(self, _: Payload) -> int | None:
        try:
            return int(as_agent(ids_of(self.account), self._count, seconds=2 * SECONDS))
        except (Refusal, TypeError):
            return None

    def _count(self) -> int:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        path = "".join(each if each not in "?#%" else f"%{ord(each):02x}" for each in self.database)
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database:
            return int(database.execute(self.query, [self.since]).fetchone()[0])
