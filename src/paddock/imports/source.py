"""What a person can name as the source of an import. Pure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from paddock.frozen import frozen

_CONTAINER: Final = re.compile(r"(?P<number>[1-9]\d{1,8})(?::(?P<path>/.*))?", re.DOTALL)
_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_HOST: Final = rf"(?P<host>{_NAME}|\[[0-9A-Fa-f:.]+\])"
_SSH: Final = re.compile(rf"ssh://(?P<user>{_NAME})@{_HOST}(?::(?P<port>\d{{1,5}}))?(?P<path>/.*)?", re.DOTALL)
_SCP: Final = re.compile(rf"(?P<user>{_NAME})@{_HOST}(?::(?P<path>/.*)?)?", re.DOTALL)


@frozen
class Container:
    """A container of the agent's place."""

    number: int
    path: str | None = None  # of the install's folder; without it the folder is searched for

    def __str__(self) -> str:
        return f"container {self.number}"


@frozen
class Remote:
    """A host over ssh."""

    user: str
    host: str
    port: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        return f"{self.user}@{self.host}"


@frozen
class Folder:
    """A folder on this machine."""

    path: Path

    def __str__(self) -> str:
        return "this machine"


@frozen
class Archive:
    """A zip file on this machine."""

    path: Path

    def __str__(self) -> str:
        return "this machine"


Source = Container | Remote | Folder | Archive


def parse(text: str) -> Source | None:
    """Return the source that a text names, or None. What exists on this machine is looked at, nothing else is read."""
    if not text or "\0" in text:
        return None
    path = Path(text).expanduser()
    if text.startswith((".", "/", "~")) or path.exists():
        return _here(path)
    if found := _CONTAINER.fullmatch(text):
        return Container(int(found["number"]), found["path"])
    if found := _SSH.fullmatch(text):
        port = int(found["port"]) if found["port"] else None
        return Remote(found["user"], found["host"].strip("[]"), port, found["path"])
    if found := _SCP.fullmatch(text):
        return Remote(found["user"], found["host"].strip("[]"), None, found["path"])
    return None


def _here(path: Path) -> Source | None:
    if path.is_dir():
        return Folder(path.resolve())
    return Archive(path.resolve()) if path.is_file() else None
