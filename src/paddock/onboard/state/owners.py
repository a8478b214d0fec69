"""Give the files of a home to its agent, which may change them meanwhile."""

from __future__ import annotations

import grp
import os
import pwd
import stat

from paddock.onboard.files import FOLDER, link_of, mounts, within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

DEEPEST = 500  # folders inside each other; each needs an open file


def numbers_of(user: str, uid: int, gid: int) -> tuple[int, int]:
    """Return the numbers of an account, or the given ones if there is no such account yet."""
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        return uid, gid
    return found.pw_uid, found.pw_gid


def ids(owner: str) -> tuple[int, int]:
    """Return the numbers of USER:GROUP. Each may be a number."""
    user, _, group = owner.partition(":")
    uid = int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    return uid, int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid


def give(top: int, uid: int, gid: int, kept: Collection[str] = ()) -> tuple[int, int]:
    """Make entries of a folder an account's, and return how many became its own, and how many did not.

    ``kept`` are paths below the folder, "." for itself, that stay whose they are. So do files with several names, and
    what is mounted, because both may be outside the folder. An entry is opened without following a link, and only what
    was opened is changed: the agent can put another one in its place.
    """
    device, here = os.fstat(top).st_dev, link_of(f"/proc/self/fd/{top}")
    apart = {os.path.relpath(each, here) for each in mounts() if each != here and within(each, here)}
    counts = [0, 0]

    def own(descriptor: int, path: str) -> bool:
        found = os.fstat(descriptor)
        is_folder = stat.S_ISDIR(found.st_mode)
        # In an overlay, only folders have the device of the filesystem.
        if path in apart or (is_folder and found.st_dev != device):
            return False
        if found.st_uid != uid and path not in kept:
            if is_folder or found.st_nlink == 1:
                os.chown(f"/proc/self/fd/{descriptor}", uid, gid)
                counts[0] += 1
            else:
                counts[1] += 1
        return True

    def walk(folder: int, path: str, depth: int) -> None:
        for name in os.listdir(folder):
            below = f"{path}{name}"
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                is_folder = stat.S_ISDIR(found.st_mode)
                if found.st_uid == uid and not is_folder:
                    continue
                entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except FileNotFoundError:
                continue
            try:
                if not own(entry, below) or not is_folder or depth >= DEEPEST:
                    continue
                inside = os.open(".", FOLDER, dir_fd=entry)
            except OSError:
                continue
            finally:
                os.close(entry)
            try:
                walk(inside, f"{below}/", depth + 1)
            finally:
                os.close(inside)

    own(top, ".")
    walk(top, "", 1)
    return counts[0], counts[1]
