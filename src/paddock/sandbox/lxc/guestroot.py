"""Files inside a container's root, written from outside without following its symlinks."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from ..confined import descend
from ..errors import OperationError
from .names import FIRST_ID

# More than any file that is read here; the container may have made it larger.
_MOST: Final = 1 << 20


class GuestRoot:
    """A container's root directory, as a place to put files that its root owns."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextlib.contextmanager
    def directory(self, path: str | PurePosixPath, *, create: bool = True) -> Iterator[int]:
        """A descriptor of a directory; a symlink on the way is refused: the container may have made it."""
        try:
            with descend(self.root, str(path), create=create, owner=FIRST_ID) as found:
                yield found
        except OSError as error:
            raise OperationError(f"unable to use '{path}' in the container: {error.strerror}") from None

    def make_directory(self, path: str) -> None:
        """Make a directory and what leads to it."""
        with self.directory(path):
            pass

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file whole, replacing whatever had its name."""
        pure = PurePosixPath(path)
        if pure.name in ("", ".."):
            raise OperationError(f"'{path}' is not the name of a file")
        data = content.encode() if isinstance(content, str) else content
        with self.directory(pure.parent) as directory:
            temporary = f".{pure.name}.paddock"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            descriptor = os.open(temporary, flags, mode, dir_fd=directory)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), mode)
                os.fchown(file.fileno(), FIRST_ID, FIRST_ID)
            os.rename(temporary, pure.name, src_dir_fd=directory, dst_dir_fd=directory)

    def read(self, path: str) -> str | None:
        """A file's text, or None if there is none, it is no ordinary file, or it is too large."""
        pure = PurePosixPath(path)
        # Without waiting: nobody may ever write into a pipe of that name.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with self.directory(pure.parent, create=False) as directory:
                descriptor = os.open(pure.name, flags, dir_fd=directory)
                with os.fdopen(descriptor, "rb") as file:
                    facts = os.fstat(file.fileno())
                    if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST:
                        return None
                    return file.read(_MOST).decode(errors="replace")
        except (OperationError, OSError):
            return None

    def entries(self, path: str) -> list[str]:
        """The names in a directory; none if it is not there or a link leads to it."""
        try:
            with self.directory(path, create=False) as directory:
                return os.listdir(directory)  # noqa: PTH208 - of a descriptor
        except OperationError:
            return []

    def chmod(self, path: str, mode: int) -> None:
        """Set a directory's mode."""
        with self.directory(path) as directory:
            os.fchmod(directory, mode)
