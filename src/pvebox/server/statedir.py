"""Create and check a sandbox's state directory, so that no other directory is ever deleted, and its private files."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from pvebox.api.errors import SandboxError

_MARKER: Final = ".pvebox"
_HINT: Final = "Choose another directory with --state."


def prepare(state: Path) -> None:
    """Create and mark a sandbox's state directory, private to its user. Raise if it holds anything else."""
    make_private(state)
    if not (state / _MARKER).exists():
        if any(state.iterdir()):
            raise SandboxError(
                f"{state} is not empty and not a sandbox's directory.", hint="Choose an empty directory with --state."
            )
        (state / _MARKER).touch()


def is_sandbox(state: Path) -> bool:
    """Return whether a sandbox's directory exists. Raise if the directory belongs to something else.

    An empty directory is removed: its sandbox was killed before it could mark the directory.
    """
    if not (state / _MARKER).exists():
        with contextlib.suppress(OSError):
            state.rmdir()
        if state.exists():
            raise SandboxError(f"{state} is not a sandbox's directory. Nothing was deleted.")
        return False
    require_own(state)
    return True


def require_own(state: Path) -> None:
    """Raise if the directory belongs to another user, whose pid files could name any process to be stopped."""
    if os.path.lexists(state):
        with _owned(state):
            pass


@contextlib.contextmanager
def _owned(state: Path, hint: str = _HINT) -> Iterator[int]:
    try:
        directory = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise SandboxError(f"{state} is a link or a file, not a directory.", hint=hint) from None
    try:
        owner = os.fstat(directory).st_uid
        if owner != os.geteuid():
            raise SandboxError(
                f"{state} belongs to another user (uid {owner}).",
                hint=f"Use the account that created it. {hint}",
            )
        yield directory
    finally:
        os.close(directory)


def make_private(state: Path, hint: str = _HINT) -> None:
    """Create a directory. Raise if another user can replace it, and remove the permissions of other users.

    The directory holds tokens, disks or the template of all containers, and the server may run as root.
    """
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _owned(state, hint) as directory:
        for above in {*state.absolute().parents, *state.resolve().parents}:
            if _is_changed_by_others(above.stat()) or _belongs_to_others(above.lstat()):
                raise SandboxError(
                    f"{state} can be replaced by another user, who has write permission in {above}.", hint=hint
                )
        if stat.S_IMODE(os.fstat(directory).st_mode) & 0o077:
            os.fchmod(directory, 0o700)
            if (state / _MARKER).exists():
                sys.stderr.write(
                    f"{state} was accessible to other users of this machine. Its mode is now 0700. "
                    "They may know its tokens. A reset creates new ones.\n"
                )


def _belongs_to_others(facts: os.stat_result) -> bool:
    """Return whether a directory or link belongs to a user other than root and the current user."""
    return facts.st_uid not in (0, os.geteuid())


def _is_changed_by_others(facts: os.stat_result) -> bool:
    """Return whether a user other than root and the current user may rename entries of a directory."""
    if _belongs_to_others(facts):
        return True
    if facts.st_mode & stat.S_ISVTX:
        return False
    of_group = facts.st_mode & stat.S_IWGRP and facts.st_gid not in (0, os.getegid())
    return bool(facts.st_mode & stat.S_IWOTH or of_group)


def write_private(path: Path, text: str) -> None:
    """Write a file that only this account can read, even if it existed with another mode. Replace its content."""
    with os.fdopen(_open_private(path, os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(text)


def append_private(path: Path) -> IO[bytes]:
    """Open a file that only this account can read for appending, even if it existed with another mode."""
    file = os.fdopen(_open_private(path, os.O_APPEND), "ab")
    file.seek(0, os.SEEK_END)
    return file


def _open_private(path: Path, how: int) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor
