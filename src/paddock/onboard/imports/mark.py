"""The mark of an import: a file beside what was imported. Runs on the machine that has it.

The mark says which agent has the state now. It is not in the folder, because the folder is left as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress

from paddock.onboard.program.refusal import Refusal
from paddock.onboard.stream.layout import Json

_SUFFIX = ".imported-by-paddock"
_LONGEST = 64 << 10


class CannotMark(Refusal):
    """A mark cannot be written or read."""


def mark_of(path: str) -> str:
    """Return the path of the mark of a folder or an archive."""
    return f"{path}{_SUFFIX}"


def read_mark(path: str) -> Json | None:
    """Return the mark of a folder or an archive. An unreadable one counts as the mark of somebody else."""
    try:
        with os.fdopen(os.open(mark_of(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            found = json.loads(file.read(_LONGEST))
        return {key: str(found[key]) for key in ("agent", "place", "at")}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {"agent": "?", "place": "?", "at": "?"}


def write_mark(path: str, mark: Json) -> None:
    """Write the mark of a folder or an archive."""
    text = json.dumps({**mark, "about": _ABOUT.format(**mark)}, indent=2) + "\n"
    write_beside(mark_of(path), text)


_ABOUT = (
    "Paddock has imported this state: {agent} has it now, at {place}. It was not changed. It must not be used beside"
    " the agent. To go back, remove the agent first, then this file and the files 90-paddock.conf of its units."
)


def can_mark(path: str) -> bool:
    """Return whether a mark can be written."""
    return os.access(os.path.dirname(path), os.W_OK | os.X_OK) or os.path.exists(mark_of(path))


def write_beside(path: str, text: str) -> None:
    """Write a file with the rights of the first account on its path that is not root.

    That account could replace everything below by links, and root would follow them.
    """
    uid, gid = _first_account(path)
    as_account(uid, gid, lambda: _write(path, text))


def _first_account(path: str) -> tuple[int, int]:
    above = ""
    for name in path.split("/")[1:-1]:
        above += f"/{name}"
        try:
            found = os.lstat(above)
        except FileNotFoundError:
            break
        if found.st_uid != 0:
            return found.st_uid, found.st_gid
    return 0, 0


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    new = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(new, path)


def as_account(uid: int, gid: int, work: Callable[[], None]) -> None:
    """Do something in a process with the rights of an account."""
    child = os.fork()
    if not child:
        status = 1
        try:
            if os.geteuid() == 0 and uid != 0:
                os.setgroups([])
                os.setgid(gid)
                os.setuid(uid)
            work()
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        raise CannotMark("the mark of the import cannot be written")
