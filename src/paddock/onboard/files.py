"""Files and folders on a machine. Root's own files appear at once or not at all, and survive a loss of power.

What an agent may write to is opened step by step from a folder of root's, and never through a link.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import contextmanager, suppress

from paddock.onboard.program.programs import must
from paddock.onboard.program.refusal import BUSY, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # the entry may be a pipe: opening it must not wait
MOST = 4 << 20  # bytes of a file that is read as text


def text(path: str) -> str:
    """Return the text of a file of root's; nothing if there is none."""
    try:
        with open(path, "rb") as file:
            return file.read(MOST).decode(errors="surrogateescape")
    except OSError:
        return ""


def lines(path: str) -> list[str]:
    """Return the lines of a file of root's that are not empty."""
    return [line for line in text(path).split("\n") if line]


def link_of(path: str) -> str:
    """Return where a link leads; nothing if it is no link."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def names(folder: str) -> list[str]:
    """Return the names in a folder in order; none if it does not exist."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def make_folder(path: str, mode: int = 0o755) -> None:
    """Make a folder and those above it, which everybody may enter."""
    before = os.umask(0o777 & ~mode)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(before)


def write(path: str, content: str | bytes, mode: int = 0o600) -> None:
    """Write a file of root's: beside its place, then into it."""
    data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
    file = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(file, "wb") as opened:
        os.fchmod(file, mode)
        opened.write(data)
        opened.flush()
        os.fsync(file)
    os.rename(f"{path}.new", path)


def link(target: str, path: str) -> None:
    """Make a link that leads there, in the place of an earlier one."""
    if link_of(path) != target:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}.new")
        os.symlink(target, f"{path}.new")
        os.rename(f"{path}.new", path)


def remove(path: str) -> None:
    """Remove a file or a link, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def remove_tree(path: str) -> None:
    """Remove a folder with everything in it, and nothing that is mounted there."""
    if os.path.lexists(path):
        must(["rm", "-rf", "--one-file-system", "--", path], seconds=3600)


def remove_empty(path: str) -> None:
    """Remove a folder if nothing is in it."""
    with suppress(OSError):
        os.rmdir(path)


def same(one: str, other: str) -> bool:
    """Whether two files or folders of root's have the same contents."""
    if os.path.isdir(one) or os.path.isdir(other):
        both = set(names(one)) | set(names(other))
        return os.path.isdir(one) == os.path.isdir(other) and all(same(f"{one}/{n}", f"{other}/{n}") for n in both)
    return os.path.exists(one) == os.path.exists(other) and text(one) == text(other)


def set_aside(name: str, folder: int | None = None) -> None:
    """Give an entry another name, which tells when it was found."""
    import time

    os.rename(name, f"{name}.found-{int(time.time())}", src_dir_fd=folder, dst_dir_fd=folder)


def is_mounted(path: str) -> bool:
    """Whether something is mounted at a path."""
    return os.path.realpath(path) in mounts()


def mounts() -> list[str]:
    """Return the paths at which something is mounted."""
    return [path for _, path in mounted_roots()]


def mounted_roots() -> list[tuple[str, str]]:
    """Return what is mounted: the folder of the filesystem that is seen, and the path at which it is seen."""
    fields = [line.split(" ") for line in lines("/proc/self/mountinfo")]
    return [(_unescaped(each[3]), _unescaped(each[4])) for each in fields]


def _unescaped(path: str) -> str:
    """Return a path of mountinfo, which writes a blank as \\040."""
    octets = path.encode(errors="surrogateescape").decode("unicode_escape").encode("latin-1")
    return octets.decode(errors="surrogateescape")


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder, or below it."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def open_quietly(name: str, flags: int, folder: int | None = None) -> int:
    """Open something without a change of its access time, where this account may ask for that."""
    try:
        return os.open(name, flags | os.O_NOATIME, dir_fd=folder)
    except PermissionError:
        return os.open(name, flags, dir_fd=folder)


@contextmanager
def opened(name: str, flags: int = FOLDER, folder: int | None = None) -> Iterator[int]:
    """Open a file or a folder, without following a link."""
    descriptor = open_quietly(name, flags, folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def descended(top: int, folders: Sequence[str]) -> Iterator[int]:
    """Open a folder below another one, without following a link."""
    current = os.dup(top)
    try:
        for name in folders:
            inside = open_quietly(name, FOLDER, current)
            os.close(current)
            current = inside
        yield current
    finally:
        os.close(current)


@contextmanager
def locked(path: str, why: str, *, wait: float | None = 0, create: bool = False) -> Iterator[int]:
    """Hold the lock of a file or a folder of root's. Without ``wait``, wait for as long as it takes."""
    import time

    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW if create else os.O_RDONLY
    with opened(path, flags | os.O_CLOEXEC) as file:
        end = time.monotonic() + (wait or 0)
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if wait is not None else 0))
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise Refusal(why, BUSY) from None
                time.sleep(0.1)
        yield file


def is_held(path: str) -> bool:
    """Whether another process holds the lock of a file."""
    try:
        with opened(path, os.O_RDONLY | os.O_CLOEXEC) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def entry(name: str, folder: int | None = None) -> os.stat_result | None:
    """Return the facts about an entry itself, not about what a link leads to; None if there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_folder(found: os.stat_result | None) -> bool:
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_file(found: os.stat_result | None) -> bool:
    return found is not None and stat.S_ISREG(found.st_mode)
