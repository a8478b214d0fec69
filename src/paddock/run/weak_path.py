"""Find the part of a path through which another account can change what is read there."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from paddock.frozen import frozen

_MOST_LINKS: Final = 40  # as the kernel
# Fields and tags of an ACL, from linux/posix_acl_xattr.h.
_ACL: Final = "system.posix_acl_access"
_ENTRY: Final = struct.Struct("<HHI")
_USER, _GROUP_OBJ, _GROUP, _WRITE = 0x02, 0x04, 0x08, 0x02


@frozen
class WeakPath:
    """A file or folder that another account can change, and so everything that is read through it."""

    path: str
    why: str
    owner: int | None  # the account that it belongs to, if that is the reason


def weak_path(path: Path, trusted: Collection[int]) -> WeakPath | None:
    """Return the first part of a path that another account than the trusted ones can change; None if there is none.

    The parts are looked at from the root down, with links resolved. An account that cannot change one part cannot
    replace the next one either. So the answer None stays true while files are read, unless root changes that.
    """
    try:
        return _walked(path, trusted)
    except OSError as error:  # root may not look into the folder of a network filesystem
        return WeakPath(str(path), f"cannot be examined: {error.strerror}", None)


def _walked(path: Path, trusted: Collection[int]) -> WeakPath | None:
    steps = [part for part in reversed(path.absolute().parts) if part != "/"]
    at, links = Path("/"), 0
    while steps:
        if weak := _weak(at, trusted, last=False):
            return weak
        name = steps.pop()
        above, at = at, at.parent if name == ".." else at / name
        try:
            found = at.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return _weak(above, trusted, last=True)  # whoever can write there can create it
        if not stat.S_ISLNK(found.st_mode):
            continue
        links += 1
        if found.st_uid not in trusted:
            return WeakPath(str(at), f"belongs to {_account(found.st_uid)}", found.st_uid)
        if links > _MOST_LINKS:
            return WeakPath(str(at), "has too many links", None)
        target = at.readlink()
        at = Path("/") if target.is_absolute() else above
        steps += [part for part in reversed(target.parts) if part != "/"]
    return _weak(at, trusted, last=True)


def _weak(path: Path, trusted: Collection[int], *, last: bool) -> WeakPath | None:
    """Return a file or folder, if others can change it. In a sticky folder they cannot replace what is not theirs."""
    found = path.lstat()
    if found.st_uid not in trusted:
        return WeakPath(str(path), f"belongs to {_account(found.st_uid)}", found.st_uid)
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX and not last:
        return None
    who = _others_who_write(path, found, trusted)
    return WeakPath(str(path), f"may be written by {who}", None) if who else None


def _others_who_write(path: Path, found: os.stat_result, trusted: Collection[int]) -> str:
    """Return who else may write, in words; empty if nobody may."""
    if found.st_mode & stat.S_IWOTH:
        return "every account"
    if not found.st_mode & stat.S_IWGRP:
        return ""  # with an ACL, these bits are its mask: nobody that it names may write
    users, groups = _named_in_acl(path) or ((), (found.st_gid,))
    for uid in users:
        if uid not in trusted:
            return _account(uid)
    for gid in groups:
        members = _members(gid)
        if members is None or not members <= set(trusted):
            with suppress(KeyError):
                return f"the group {grp.getgrgid(gid).gr_name}"
            return f"the group {gid}"
    return ""


def _named_in_acl(path: Path) -> tuple[Collection[int], Collection[int]] | None:
    """Return the accounts and the groups that an ACL lets write; None if there is no ACL."""
    try:
        entries = list(_ENTRY.iter_unpack(os.getxattr(path, _ACL)[4:]))
    except (OSError, AttributeError, struct.error):  # no ACL, or a system or a filesystem without any
        return None
    own = path.stat().st_gid
    writers = [(tag, own if tag == _GROUP_OBJ else number) for tag, allowed, number in entries if allowed & _WRITE]
    users = [number for tag, number in writers if tag == _USER]
    return users, [number for tag, number in writers if tag in (_GROUP_OBJ, _GROUP)]


def _members(gid: int) -> set[int] | None:
    """Return the accounts in a group; None if nobody knows it."""
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return None
    return {*_numbers(group.gr_mem), *(each.pw_uid for each in pwd.getpwall() if each.pw_gid == gid)}


def _numbers(names: Collection[str]) -> Iterator[int]:
    for name in names:
        with suppress(KeyError):
            yield pwd.getpwnam(name).pw_uid


def _account(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"the account {uid}"
