"""Files inside a container's root, written from outside without following its symlinks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ..errors import OperationError
from .names import FIRST_ID


class GuestRoot:
    """A container's root directory, as a place to put files that its root owns."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextlib.contextmanager
    def _directory(self, path: PurePosixPath, *, create: bool) -> Iterator[int]:
        """A descriptor of a directory; a symlink on the way is refused: the container may have made it."""
        current = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in path.parts:
                if part == "/":
                    continue
                try:
                    deeper = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
                except FileNotFoundError:
                    if not create:
                        raise
                    os.mkdir(part, 0o755, dir_fd=current)
                    os.chown(part, FIRST_ID, FIRST_ID, dir_fd=current, follow_symlinks=False)
                    deeper = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
                os.close(current)
                current = deeper
            yield current
        except OSError as error:
            raise OperationError(f"unable to use '{path}' in the container: {error.strerror}") from None
        finally:
            os.close(current)

    def make_directory(self, path: str) -> None:
        """Make a directory and what leads to it."""
        with self._directory(PurePosixPath("/") / path.lstrip("/"), create=True):
            pass

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file whole, replacing whatever had its name."""
        pure = PurePosixPath(path)
        data = content.encode() if isinstance(content, str) else content
        with self._directory(pure.parent, create=True) as directory:
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
        """A file's text, or None if there is none or it is a link."""
        pure = PurePosixPath(path)
        try:
            with self._directory(pure.parent, create=False) as directory:
                descriptor = os.open(pure.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
                with os.fdopen(descriptor, "r", encoding="utf-8", errors="replace") as file:
                    return file.read()
        except (OperationError, OSError):
            return None

    def chmod(self, path: str, mode: int) -> None:
        """Set a directory's mode."""
        with self._directory(PurePosixPath(path), create=True) as directory:
            os.fchmod(directory, mode)
