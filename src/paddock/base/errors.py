"""The errors shown to users: a message, a hint and an exit code. A full disk is one of them."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final, TypeGuard

from paddock.base import folders


class Exit(IntEnum):
    """Exit codes of every verb."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    CHANGES_PENDING = 3
    NEEDS_PERSON = 4


class PaddockError(Exception):
    """An error with a message and a hint that a person can act on. It is never shown as a traceback."""

    exit_code: Exit = Exit.FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadInput(PaddockError):
    """The file, a flag or an environment variable is wrong."""

    exit_code: Exit = Exit.BAD_INPUT


class Refused(PaddockError):
    """Paddock did not carry out a plan, because it could lose state or change something Paddock does not own."""

    exit_code: Exit = Exit.NEEDS_PERSON


class NeedsPerson(PaddockError):
    """The next step has to be done by a person; the hint has the commands."""

    exit_code: Exit = Exit.NEEDS_PERSON


class WorldChanged(PaddockError):
    """The observation is stale or uncertain: observe and plan again."""


_FULL: Final = {errno.ENOSPC, errno.EDQUOT}


class DiskFull(PaddockError):
    """A file that Paddock needs could not be written, because a disk of this machine is full."""


def is_full(error: BaseException | None) -> TypeGuard[OSError]:
    """Return whether the error means that a disk of this machine is full or the user's quota is used up."""
    return isinstance(error, OSError) and error.errno in _FULL


def disk_full_error(error: OSError) -> DiskFull:
    """Return the error to show for a full disk: it names the file or the folders, and says what to do."""
    where = str(error.filename) if error.filename else ", ".join(_full_folders()) or "a disk of this machine"
    return DiskFull(
        f"this machine's disk is full: {where} cannot be written",
        hint="free some space (`df -h` shows the disks, `df -i` their inodes), then run the same command again",
    )


_warned = False


def warn_not_written(what: str, error: OSError) -> None:
    """Warn that an inessential file could not be written. Only the first call in a run prints the warning."""
    global _warned
    if not _warned:
        _warned = True
        where = f" ({error.filename})" if error.filename else ""
        lost = "the run continues without its journal, its local locks and its caches"
        print(f"  warning: {what} cannot be written, because the disk is full{where}; {lost}", file=sys.stderr)


def _full_folders() -> Iterator[str]:
    """Yield the folders Paddock writes to whose disk has no space or no inodes left."""
    temporary = Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - only examined, never written
    for folder in (folders.state(), folders.cache(), folders.data(), temporary):
        try:
            facts = os.statvfs(folder)
        except OSError:
            continue
        if facts.f_bavail == 0 or (facts.f_files and facts.f_favail == 0):
            yield str(folder)
