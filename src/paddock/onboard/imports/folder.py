"""Find the folder of an install, or unpack its zip, and describe it without a change to it. Runs on its machine."""

from __future__ import annotations

import io
import os
import pwd
import re
import stat
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress

from paddock.onboard.files import FILE, FOLDER, open_quietly, opened
from paddock.onboard.program.refusal import Refusal
from paddock.onboard.stream.layout import BLOCK, DEEPEST, BadStream, Json, matcher, parts_of
from paddock.onboard.stream.receive import Target

_VARIABLE = re.compile(rb"^(?:export )?([A-Za-z_][A-Za-z0-9_]*)=.", re.MULTILINE)
_LONGEST_FILE = 1 << 20
_DEEPEST = 60  # folders, in a search


class Unusable(Refusal):
    """An install cannot be imported."""


def chosen(order: Json) -> str:
    """Return the folder of the install: the named one, or the only one on the machine."""
    if order["path"] is not None:
        path: str = os.path.realpath(order["path"])
        if _is_paddocks(path):
            raise Unusable(f"{path} is in the state of an agent of Paddock; `backup` and `restore` copy that")
        for each in (path, os.path.join(path, order["becomes"])):
            if is_install(each, order["known_by"]):
                return each
        raise Unusable(f"{path} is not such a folder" + _expected(order))
    found = sorted(set(_candidates(order)))
    outer = [path for path in found if not any(path.startswith(f"{other}/") for other in found)]
    if not outer:
        raise Unusable("no folder of an install was found" + _expected(order))
    if len(outer) > 1:
        raise Unusable(f"several folders of installs were found: {', '.join(outer)}; name one of them")
    return outer[0]


def _expected(order: Json) -> str:
    return f": it would have {' or '.join(order['known_by'])}" if order["known_by"] else ""


def is_install(path: str, known_by: list[str]) -> bool:
    """Return whether a folder looks like the folder of an install."""
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return False
    except OSError:
        return False
    return not known_by or any(os.path.lexists(os.path.join(path, name)) for name in known_by)


def _candidates(order: Json) -> Iterator[str]:
    """Yield folders that may be an install's: in the usual places, in homes, and by names on the root disk."""
    homes = [account.pw_dir for account in pwd.getpwall()] if os.geteuid() == 0 else [os.path.expanduser("~")]
    usual = [*order["directories"], *(os.path.join(home, order["becomes"]) for home in homes if order["becomes"])]
    named = _named("/", set(order["names"]))
    for path in (*usual, *named):
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        if not _is_paddocks(folder) and is_install(folder, order["known_by"]):
            yield os.path.realpath(folder)


def _is_paddocks(folder: str) -> bool:
    """Return whether a folder is in the state of an agent."""
    return any(os.path.lexists(f"{above}/.paddock") for above in _above(folder))


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path.rstrip("/")


def _named(top: str, names: set[str], depth: int = 0) -> Iterator[str]:
    """Yield the paths of all entries with one of these names, on one file system."""
    try:
        with opened(top) as descriptor:
            device = os.fstat(descriptor).st_dev
            entries = [(each.name, each.is_dir(follow_symlinks=False)) for each in os.scandir(descriptor)]
    except OSError:
        return
    for name, is_folder in sorted(entries):
        path = os.path.join(top, name)
        if name in names:
            yield path
        elif is_folder and depth < _DEEPEST and _device(path) == device:
            yield from _named(path, names, depth + 1)


def _device(path: str) -> int | None:
    try:
        return os.lstat(path).st_dev
    except OSError:
        return None


class Contents:
    """What is in a folder: how much, and the identity of each file."""

    def __init__(self, folder: str, databases: list[str]) -> None:
        self.files = 0
        self.bytes = 0
        self.largest_database = 0
        self.inodes: set[tuple[int, int]] = set()
        self._databases = matcher(databases)
        with opened(folder) as top:
            self._read(top, "")

    def _read(self, folder: int, path: str) -> None:
        if path.count("/") > DEEPEST:
            raise Unusable(f"it has more than {DEEPEST} folders in each other")
        found = os.fstat(folder)
        self.inodes.add((found.st_dev, found.st_ino))
        for name in os.listdir(folder):
            self._entry(folder, name, path + name)

    def _entry(self, folder: int, name: str, path: str) -> None:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return
        self.inodes.add((found.st_dev, found.st_ino))
        if stat.S_ISREG(found.st_mode):
            self.files += 1
            self.bytes += found.st_size
            if self._databases.fullmatch(re.sub(r"-(wal|journal)$", "", path)):
                self.largest_database = max(self.largest_database, found.st_size)
        elif stat.S_ISDIR(found.st_mode):
            try:
                inside = open_quietly(name, FOLDER, folder)
            except OSError:
                return
            try:
                self._read(inside, f"{path}/")
            finally:
                os.close(inside)


def variables_of(text: bytes) -> list[str]:
    """Return the names of the variables that an environment file sets. Their values are secret."""
    return sorted({name.decode() for name in _VARIABLE.findall(text)})


def variables_in(folder: str, name: str) -> list[str]:
    """Return the names of the variables that a file of an install sets."""
    if not name:
        return []
    try:
        with opened(folder) as top:
            file = open_quietly(name, FILE, top)
    except OSError:
        return []
    with os.fdopen(file, "rb") as environment:
        regular = stat.S_ISREG(os.fstat(file).st_mode)
        return variables_of(environment.read(_LONGEST_FILE)) if regular else []


_MOST = 1_000_000  # entries
_LONGEST_LIST = 48 << 20  # bytes of the list of entries; each entry becomes an object of ten times its size
_LONGEST_MEMBER = 1 << 20
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
        if entry is None or entry.file_size > _LONGEST_MEMBER:
            return []
        with self._file.open(entry) as file:
            return variables_of(file.read(_LONGEST_MEMBER))

    def unpack(self, folder: str) -> None:
        """Unpack all files into a new folder."""
        target = Target(folder)
        made: set[str] = set()
        for path in sorted(self.entries):
            for above in _above_member(path):
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


def _above_member(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _mtime(entry: zipfile.ZipInfo) -> int:
    with suppress(ValueError, OverflowError):
        return max(0, int(time.mktime((*entry.date_time, 0, 0, -1))))
    return 0
