"""Look at folders of a machine: those that an agent is to mount, and those with files of an agent."""

from __future__ import annotations

import os
from contextlib import suppress

from paddock.onboard.files import lines, mounted_roots, mounts, names, opened, within
from paddock.onboard.program.frozen import frozen
from paddock.onboard.state.child import as_agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.onboard.program.serve import Payload

_MOST = 500
_OF_A_SHELL = (".bashrc", ".profile", ".bash_logout", ".bash_history")  # files that it creates in a home
_LEFT_OUT = (".ssh", ".cache")


@frozen
class MountSeen:
    """A folder of the host, and whether an account can use it."""

    path: str
    kind: str  # missing, secret, directory, mounted, disk
    owner: int  # -1 if it is missing
    tried: int  # the uid that tried to write
    writable: bool


@frozen
class ReportMounts:
    """Report whether an account can use folders of the host. Without root, the account that asks is tried."""

    uid: int
    gid: int
    paths: tuple[str, ...]

    def perform(self, _: Payload) -> list[MountSeen]:
        owner = (self.uid, self.gid) if os.geteuid() == 0 else None
        tried = as_agent(owner, lambda: [os.access(path, os.W_OK) for path in self.paths])
        uid = self.uid if owner else os.geteuid()
        mounted = mounts()
        return [
            MountSeen(path, _kind(path, mounted), _owner(path), uid, writable)
            for path, writable in zip(self.paths, tried, strict=True)
        ]


def _owner(path: str) -> int:
    return os.stat(path).st_uid if os.path.exists(path) else -1


def _kind(path: str, mounted: list[str]) -> str:
    if not os.path.isdir(path):
        return "missing"
    if _is_secret(path):
        return "secret"
    real = os.path.realpath(path)
    if real not in mounted:
        return "directory"
    roots = [root for root, path in mounted_roots() if path == real]
    return "disk" if roots[-1:] == ["/"] else "mounted"


def _is_secret(path: str) -> bool:
    """Whether a path leads to Paddock's own files or to a state, or to a folder above or below them."""
    real = os.path.realpath(path)
    own = ["/etc/paddock", "/opt/paddock", "/var/lib/paddock"]
    own += [f"{top}/{name}" for top in ("/var/lib/paddock", "/var/lib/paddock/.agents") for name in names(top)]
    return any(within(real, each) or within(each, real) for each in map(os.path.realpath, own))


@frozen
class ReportStrays:
    """Report where files of an agent are on the root disk: in the account's home, in folders, and below some names.

    Names are read only: no file is opened, no link followed, and no other volume entered.
    """

    account: str
    uid: int
    folders: tuple[str, ...]
    names: tuple[str, ...]

    def perform(self, _: Payload) -> list[str]:
        found: dict[str, None] = {}
        for path in self._found(os.stat("/").st_dev):
            found[path] = None
            if len(found) == _MOST:
                break
        return list(found)

    def _found(self, disk: int) -> Iterator[str]:
        accounts = [line.split(":") for line in lines("/etc/passwd")]
        homes = [
            each[5] for each in accounts if len(each) > 5 and (each[0] == self.account or each[2] == str(self.uid))
        ]
        for path in (*homes, *self.folders):
            if path.startswith("/") and path != "/" and _has_files(path, disk):
                yield path
        left = ["/"]  # an agent can nest folders deeper than calls
        while left:
            for entry in _entries(folder := left.pop(), disk):
                path = os.path.join(folder, entry.name)
                if entry.name not in self.names:
                    left += [path] if entry.is_dir(follow_symlinks=False) else []
                elif entry.is_file(follow_symlinks=False) or _has_files(path, disk):
                    yield path


def _has_files(path: str, disk: int) -> bool:
    """Whether a folder of the root disk holds files. Those that a shell creates in a home do not count."""
    left = [path]
    while left:
        for entry in _entries(folder := left.pop(), disk):
            if entry.name in _LEFT_OUT:
                continue
            if entry.is_dir(follow_symlinks=False):
                left.append(os.path.join(folder, entry.name))
            elif entry.name not in _OF_A_SHELL:
                return True
    return False


def _entries(folder: str, disk: int) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder; none if it is on another disk, or is gone or replaced meanwhile."""
    with suppress(OSError), opened(folder) as inside:
        if os.fstat(inside).st_dev == disk:
            with os.scandir(inside) as entries:
                yield from entries
