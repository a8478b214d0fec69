"""Take out of a received state what would make a copy act, and put it back later. Runs on the machine."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from paddock.stream.folders import descended, opened
from paddock.stream.layout import BadStream, Json, matcher, parts_of


def set_aside(folder: str, aside: str, patterns: list[str], entries: list[Json]) -> None:
    """Move the entries of a new folder that match into another new folder, with their paths.

    A link in place of a folder above a pattern would hide what is behind it from the pattern, so it is refused.
    """
    above = {"/".join(parts[:at]) for parts in map(parts_of, patterns) for at in range(1, len(parts))}
    for entry in entries:
        if entry["type"] == "link" and entry["path"] in above:
            raise BadStream(f"{entry['path']!r} is a link, and a copy of such a state could act")
    wanted = matcher(patterns)
    os.mkdir(aside, 0o700)
    moved: set[str] = set()
    with opened(folder) as source, opened(aside) as target:
        for entry in sorted(entries, key=lambda each: each["path"].count("/")):
            path = entry["path"]
            *folders, name = parts_of(path)
            if wanted.fullmatch(path) and not any("/".join(folders[:at]) in moved for at in range(1, len(folders) + 1)):
                moved.add(path)
                with descended(source, folders) as here, _made(target, folders) as there:
                    os.rename(name, name, src_dir_fd=here, dst_dir_fd=there)


@contextmanager
def _made(top: int, folders: list[str]) -> Iterator[int]:
    """Create folders below another, and open the last one."""
    for at, name in enumerate(folders):
        with descended(top, folders[:at]) as above, suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
    with descended(top, folders) as last:
        yield last


def put_back(aside: str, folder: str) -> None:
    """Move everything from one folder into another. What has the same path there is replaced; folders are joined."""
    with opened(aside) as source, opened(folder) as target:
        _join(source, target)
    shutil.rmtree(aside)


def _join(source: int, target: int) -> None:
    for name in os.listdir(source):
        if _is_folder(name, source) and _is_folder(name, target):
            with descended(source, [name]) as here, descended(target, [name]) as there:
                _join(here, there)
        else:
            _remove(name, target)
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)


def _remove(name: str, folder: int) -> None:
    if _is_folder(name, folder):
        shutil.rmtree(f"/proc/self/fd/{folder}/{name}")
    else:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _is_folder(name: str, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
