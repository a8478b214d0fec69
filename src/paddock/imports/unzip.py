"""Unpack the backup of an install from a zip file. Runs on the machine that has the file.

Nothing is written outside the target, whatever the archive says. Its sizes are compared with the room before anything
is unpacked, and no entry becomes larger than the archive says.
"""

from __future__ import annotations

import io
import os
import stat
import time
import zipfile
import zlib
from contextlib import suppress

from paddock.imports.folder import Unusable, variables_of
from paddock.stream.layout import BLOCK, BadStream, Json, parts_of
from paddock.stream.receive import Target

_MOST = 1_000_000  # entries
_LONGEST_LIST = 48 << 20  # bytes of the list of entries; each entry becomes an object of ten times its size
_LONGEST_FILE = 1 << 20
_ENCRYPTED = 0x1


class _File(io.BufferedReader):
    """A zip file. `zipfile` reads the list of its entries at once, however long the file says that it is."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > _LONGEST_LIST:
            raise zipfile.BadZipFile(f"its list of entries is longer than {_LONGEST_LIST >> 20} MiB")
        return super().read(size)


class Zip:
    """A zip file with the folder of an install in it."""

    def __init__(self, path: str, order: Json) -> None:
        try:
            self._file = zipfile.ZipFile(_File(io.FileIO(path)))
            listed = self._file.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise Unusable(f"{path} is not a usable zip file: {error}") from None
        if len(listed) > _MOST:
            raise Unusable(f"{path} has more than {_MOST} entries")
        self.links: list[str] = []
        self._becomes = order["becomes"]
        self._beside = order["beside"]
        self.entries = self._checked(listed, _wrapper(listed, order))
        known = [f"{self._becomes}/{name}".lstrip("/") for name in order["known_by"]]
        if known and not any(name in self.entries for name in known):
            raise Unusable(f"{path} is not such a backup: it has neither {' nor '.join(order['known_by'])}")
        self.bytes = sum(each.file_size for each in self.entries.values())

    def _checked(self, listed: list[zipfile.ZipInfo], wrapper: str) -> dict[str, zipfile.ZipInfo]:
        """Return the files by their path in the agent's home. Raise if a name leads out of it, or occurs twice."""
        found: dict[str, zipfile.ZipInfo] = {}
        for each in listed:
            name = each.filename
            if each.is_dir():
                continue
            path = self._path(name[len(wrapper) :] if wrapper else name)
            if each.flag_bits & _ENCRYPTED:
                raise Unusable(f"{name!r} is encrypted")
            kind = stat.S_IFMT(each.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                self.links.append(path)
                continue
            if path in found:
                raise Unusable(f"{name!r} is twice in the archive")
            found[path] = each
        for path in found:
            above = path.rpartition("/")[0]
            while above:
                if above in found:
                    raise Unusable(f"{above!r} is a file and a folder")
                above = above.rpartition("/")[0]
        return found

    def _path(self, name: str) -> str:
        try:
            parts = parts_of(name)
        except BadStream as error:
            raise Unusable(str(error)) from None
        if "\\" in name or parts[0].endswith(":"):
            raise Unusable(f"the name {name!r} is not a path below the state")
        if self._beside and parts[0] == self._beside and len(parts) > 1:
            return "/".join(parts[1:])
        return f"{self._becomes}/{name}".lstrip("/")

    def variables(self, name: str) -> list[str]:
        """Return the names of the variables that an environment file in the archive sets."""
        entry = self.entries.get(f"{self._becomes}/{name}".lstrip("/")) if name else None
        if entry is None or entry.file_size > _LONGEST_FILE:
            return []
        with self._file.open(entry) as file:
            return variables_of(file.read(_LONGEST_FILE))

    def unpack(self, folder: str) -> None:
        """Unpack all files into a new folder."""
        target = Target(folder)
        made: set[str] = set()
        for path in sorted(self.entries):
            for above in _above(path):
                if above not in made:
                    target.folder(above)
                    made.add(above)
            self._file_to(target, path, self.entries[path])

    def _file_to(self, target: Target, path: str, entry: zipfile.ZipInfo) -> None:
        try:
            with self._file.open(entry) as source, target.file(path) as file:
                left = entry.file_size
                while data := source.read(BLOCK):
                    left -= len(data)
                    if left < 0:
                        raise Unusable(f"{path!r} is larger than the archive says")
                    file.write(data)
                if left:
                    raise Unusable(f"{path!r} is truncated")
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise Unusable(f"{path!r} is damaged: {error}") from None
        # Only its owner reads a state. The archive may say otherwise.
        mode = 0o700 if entry.external_attr >> 16 & stat.S_IXUSR else 0o600
        target.set_owner(path, os.geteuid(), os.getegid(), mode, _mtime(entry))


def _wrapper(listed: list[zipfile.ZipInfo], order: Json) -> str:
    """Return the folder that all entries of the archive are in, if it is one that an install may have."""
    tops = {each.filename.partition("/")[0] for each in listed}
    inside = all("/" in each.filename for each in listed)
    top = next(iter(tops)) if len(tops) == 1 else ""
    return f"{top}/" if inside and top and top in (order["becomes"], *order["wrappers"]) else ""


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _mtime(entry: zipfile.ZipInfo) -> int:
    with suppress(ValueError, OverflowError):
        return max(0, int(time.mktime((*entry.date_time, 0, 0, -1))))
    return 0
