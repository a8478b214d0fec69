"""Resolve untrusted paths without leaving a directory.

Requests, console commands and containers choose the names. `path_below` is for directories in which only the sandbox
writes. `descend` is for directories in which a container can create entries: its root, and directories of the node
that it mounts. `descend` opens one entry after the other and follows no symlink, so that a container cannot redirect
the path by a change in between.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pvebox.api.errors import OperationError


def path_below(top: Path, *names: str) -> Path:
    """Return the path of a name below a directory. Raise if the name leads out of the directory."""
    parts = [part for name in names for part in name.split("/")]
    if not parts or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise _leads_out("/".join(names))
    path = top.joinpath(*parts)
    if not path.parent.resolve().is_relative_to(top.resolve()):
        raise _leads_out("/".join(names))
    return path


def parts_of(path: str) -> list[str]:
    """Split a path into its components. Raise if one of them is `..`."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if any(part == ".." or "\0" in part for part in parts):
        raise _leads_out(path)
    return parts


@contextlib.contextmanager
def descend(top: Path, path: str, *, create: bool = False, owner: int | None = None) -> Iterator[int]:
    """Yield a descriptor of a directory below `top`. Raise if the path has a symlink or `..` in it."""
    parts = parts_of(path)
    current = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            deeper = _enter(current, part, create=create, owner=owner)
            os.close(current)
            current = deeper
        yield current
    finally:
        os.close(current)


def _enter(directory: int, name: str, *, create: bool, owner: int | None) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=directory)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=directory)
    made = os.open(name, flags, dir_fd=directory)
    if owner is not None:
        os.fchown(made, owner, owner)
    return made


def descriptor_path(descriptor: int) -> str:
    """Return a /proc path through which another process of root reaches the file that this descriptor has open."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _leads_out(name: str) -> OperationError:
    return OperationError(f"the path {name!r} leads out of its directory")
