"""Paths that stay inside a directory, whatever names a request, a console or a guest chose.

`below` is for directories that only the sandbox writes in. `descend` is for those in which a guest makes
entries of its own (its root, and directories of the node that it has mounted): it opens one entry after the
other and follows no link, so that nothing the guest changes meanwhile leads elsewhere.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .errors import OperationError


def below(top: Path, *names: str) -> Path:
    """Return the path of a name below a directory, or refuse a name that leads out of it."""
    parts = [part for name in names for part in name.split("/")]
    if not parts or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise _leads_out("/".join(names))
    path = top.joinpath(*parts)
    if not path.parent.resolve().is_relative_to(top.resolve()):
        raise _leads_out("/".join(names))
    return path


def parts_of(path: str) -> list[str]:
    """The entries that an absolute or relative path names, one after the other; `..` is refused."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if any(part == ".." or "\0" in part for part in parts):
        raise _leads_out(path)
    return parts


@contextlib.contextmanager
def descend(top: Path, path: str, *, create: bool = False, owner: int | None = None) -> Iterator[int]:
    """Yield a descriptor of a directory below another; links and `..` on the way are refused."""
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


def through(descriptor: int) -> str:
    """A path by which another program of root reaches exactly what this process has open."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _leads_out(name: str) -> OperationError:
    return OperationError(f"{name!r} leads out of the directory it belongs to")
