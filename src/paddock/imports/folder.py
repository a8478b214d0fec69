"""Find the folder of an install, and describe it without a change to it. Runs on the machine that has it."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Iterator

from paddock.stream.folders import FILE, FOLDER, open_quietly, opened
from paddock.stream.layout import DEEPEST, Json, matcher

_VARIABLE = re.compile(rb"^(?:export )?([A-Za-z_][A-Za-z0-9_]*)=.", re.MULTILINE)
_LONGEST_FILE = 1 << 20
_DEEPEST = 60  # folders, in a search


class Unusable(Exception):
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
