"""A sandbox's own directory, and nobody else's: everything below it is deleted one day."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .errors import SandboxError

_MARK: Final = ".paddock-sandbox"
_CHOOSE: Final = "Choose another directory with --state."


def make(state: Path) -> None:
    """Make a directory a sandbox's, closed to other users; one with other things in it is refused."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    _take(state)
    if not (state / _MARK).exists():
        if any(state.iterdir()):
            raise SandboxError(
                f"{state} has things in it that are not a sandbox's.", hint="Choose an empty directory with --state."
            )
        (state / _MARK).touch()


def is_one(state: Path) -> bool:
    """Whether a sandbox made it; an empty directory is removed on the way, for it may have been about to."""
    if not (state / _MARK).exists():
        with contextlib.suppress(OSError):
            state.rmdir()
        if state.exists():
            raise SandboxError(f"{state} is not a sandbox's directory; it is left as it is.")
        return False
    with _owned(state):
        return True


def require_own(state: Path) -> None:
    """Refuse a directory of another user, whose notes say what to end and to remove; one that is not there passes."""
    if os.path.lexists(state):
        with _owned(state):
            pass


@contextlib.contextmanager
def _owned(state: Path) -> Iterator[int]:
    try:
        directory = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise SandboxError(f"{state} is a link or a file, not a directory.", hint=_CHOOSE) from None
    try:
        owner = os.fstat(directory).st_uid
        if owner != os.geteuid():
            raise SandboxError(
                f"{state} belongs to another user (uid {owner}).",
                hint="Use the account that made it, or choose another directory with --state.",
            )
        yield directory
    finally:
        os.close(directory)


def _take(state: Path) -> None:
    """Refuse a directory that another user can change, and take away what others may do in it.

    It holds tokens, the control key and disks, and its server may be root's.
    """
    with _owned(state) as directory:
        for above in {*state.absolute().parents, *state.resolve().parents}:
            if _is_changed_by_others(above.stat()):
                raise SandboxError(f"{state} can be replaced by another user, who may write in {above}.", hint=_CHOOSE)
        if stat.S_IMODE(os.fstat(directory).st_mode) & 0o077:
            os.fchmod(directory, 0o700)
            if (state / _MARK).exists():
                sys.stderr.write(
                    f"{state} was open to other users of this machine and is closed now. "
                    "They may know its tokens: `reset` makes new ones.\n"
                )


def _is_changed_by_others(facts: os.stat_result) -> bool:
    """Whether another user than root and this one may rename what is in a directory."""
    if facts.st_uid not in (0, os.geteuid()):
        return True
    if facts.st_mode & stat.S_ISVTX:
        return False
    of_group = facts.st_mode & stat.S_IWGRP and facts.st_gid not in (0, os.getegid())
    return bool(facts.st_mode & stat.S_IWOTH or of_group)
