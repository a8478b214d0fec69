"""Look at the state's folders and its lease."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

from paddock.onboard.facts.files import owner, text
from paddock.onboard.facts.sockets import all_pids

Json = dict[str, Any]
ENTRIES = 100  # of the top of a state, which has three


def state(folders: list[str]) -> Json:
    found: Json = {"folders": {each: owner(each) for each in folders}, "mounted": os.path.ismount(folders[0])}
    if os.path.isdir(folders[0]):
        disk = os.statvfs(folders[0])
        found["size"], found["free"] = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        found["files_free"] = disk.f_favail if disk.f_files else None
        found["entries"] = sorted(islice(os.listdir(folders[0]), ENTRIES))
    return found


def lease(path: str, holder_file: str) -> Json:
    """Return whether the lease is locked, and the visible processes that lock it."""
    try:
        with open(path, "rb") as lock:
            wanted = os.fstat(lock.fileno())
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                held = False
            except BlockingIOError:
                held = True
    except OSError as error:
        return {"held": False, "holders": [], "holder": "", "missing": error.strerror}
    holders = {pid for pid, fd in open_files((wanted.st_dev, wanted.st_ino)) if "\nlock:" in fdinfo(pid, fd)}
    return {"held": held, "holders": sorted(holders), "holder": text(holder_file).strip()}


def open_files(wanted: tuple[int, int]) -> Iterator[tuple[int, str]]:
    """Yield the pid and descriptor of every process that has the file with this device and inode open."""
    for pid in all_pids():
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for fd in descriptors:
            try:
                found = os.stat(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if pid != os.getpid() and (found.st_dev, found.st_ino) == wanted:
                yield pid, fd


def fdinfo(pid: int, fd: str) -> str:
    return text(f"/proc/{pid}/fdinfo/{fd}")
