"""A full disk on the machine that Paddock runs on: told as what it is, and survived where a write is not essential."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeGuard

from paddock.errors import PaddockError

_FULL: Final = {errno.ENOSPC, errno.EDQUOT}


class DiskFull(PaddockError):
    """A disk of this machine is full, and what had to be written could not be."""


def is_full(error: BaseException | None) -> TypeGuard[OSError]:
    """Whether something failed because a disk of this machine, or this user's part of it, is full."""
    return isinstance(error, OSError) and error.errno in _FULL


def told(error: OSError) -> DiskFull:
    """The sentence about a disk that is full: which one, and what to do."""
    where = str(error.filename) if error.filename else ", ".join(_full_folders()) or "a disk of this machine"
    return DiskFull(
        f"this machine's disk is full: {where} cannot be written",
        hint="make room on it (`df -h` shows the disks, `df -i` their inodes), then run the same command again",
    )


_warned = False


def go_on_without(what: str, error: OSError) -> None:
    """Warn, once in a run, that something which only helps is not written."""
    global _warned
    if not _warned:
        _warned = True
        where = f" ({error.filename})" if error.filename else ""
        lost = "the run goes on without its journal, its local locks and its caches"
        print(f"  warning: {what} cannot be written, because the disk is full{where}; {lost}", file=sys.stderr)


def _full_folders() -> Iterator[str]:
    """Those of the folders that Paddock writes to whose disk has no room left."""
    home = Path.home()
    folders = (
        Path(os.environ.get("XDG_STATE_HOME") or home / ".local/state"),
        Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache"),
        Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share"),
        Path(os.environ.get("TMPDIR") or "/tmp"),  # noqa: S108 - only looked at
    )
    for folder in folders:
        try:
            facts = os.statvfs(folder)
        except OSError:
            continue
        if facts.f_bavail == 0 or (facts.f_files and facts.f_favail == 0):
            yield str(folder)
