"""Read and write files in a container's root from the host, without following symlinks."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.runtime.confined import descend
from pvebox.runtime.lxc.names import FIRST_ID

# No file that is read here is usually so large, but a hostile container can make it larger.
_LARGEST_FILE: Final = 1 << 20


class ContainerRoot:
    """A container's root directory. New files belong to the container's root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextlib.contextmanager
    def directory(self, path: str | PurePosixPath, *, create: bool = True) -> Iterator[int]:
        """Yield a descriptor of a directory. Raise if the path has a symlink, which the container may have made."""
        try:
            with descend(self.root, str(path), create=create, owner=FIRST_ID) as found:
                yield found
        except OSError as error:
            raise OperationError(f"unable to use '{path}' in the container: {error.strerror}") from None

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        with self.directory(path):
            pass

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file atomically; replace an existing one."""
        pure = PurePosixPath(path)
        if pure.name in ("", ".."):
            raise OperationError(f"'{path}' is not the name of a file")
        data = content.encode() if isinstance(content, str) else content
        with self.directory(pure.parent) as directory:
            temporary = f".{pure.name}.pvebox"
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
        """Return the text of a file, or None if the file is missing, not a regular file or too large."""
        pure = PurePosixPath(path)
        # O_NONBLOCK: opening a named pipe would otherwise wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with self.directory(pure.parent, create=False) as directory:
                descriptor = os.open(pure.name, flags, dir_fd=directory)
                with os.fdopen(descriptor, "rb") as file:
                    facts = os.fstat(file.fileno())
                    if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_FILE:
                        return None
                    return file.read(_LARGEST_FILE).decode(errors="replace")
        except (OperationError, OSError):
            return None

    def entries(self, path: str) -> list[str]:
        """Return the names in a directory; none if the directory is missing or its path has a symlink."""
        try:
            with self.directory(path, create=False) as directory:
                return os.listdir(directory)  # noqa: PTH208 - lists a descriptor
        except OperationError:
            return []

    def chmod(self, path: str, mode: int) -> None:
        """Set a directory's mode."""
        with self.directory(path) as directory:
            os.fchmod(directory, mode)
