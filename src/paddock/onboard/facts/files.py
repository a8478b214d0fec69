"""Read files that the agent may change while they are read, and the installed configuration and code."""

from __future__ import annotations

import base64
import glob
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

LARGEST = 1 << 20  # bytes that are read of a file


def content(path: str, most: int = LARGEST) -> bytes:
    try:
        # The agent may have put a link or a pipe in place of the file: do not follow the one or wait for the other.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return file.read(most) or b""
    except OSError:
        return b""


def text(path: str, most: int = LARGEST) -> str:
    return content(path, most).decode(errors="replace")


def rows(path: str, most: int = LARGEST) -> list[str]:
    """Return the lines of a file. Only a line feed ends a line: names of processes and mounts may contain the rest."""
    return [line for line in text(path, most).split("\n") if line]


def owner(path: str) -> dict[str, Any] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return {"mode": f"{stat.S_IMODE(found.st_mode):o}", "uid": found.st_uid, "gid": found.st_gid}


def digest(path: str) -> bytes:
    import hashlib  # not needed by the quick checks

    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(LARGEST), b""):
            found.update(block)
    return found.digest()


Json = dict[str, Any]


def configuration(etc: str, files: list[str]) -> Json:
    found: dict[str, Json | None] = {}
    for name in files:
        path = os.path.join(etc, name)
        known = owner(path)
        found[name] = known and {**known, "sha256": digest(path).hex()}
    return {"bundle": os.path.basename(os.path.realpath(etc)), "files": found}


def code(tree: str | None) -> Json | None:
    """Compare a code tree with the RECORD files of its packages."""
    if tree is None:
        return None
    folders = glob.glob(tree + "/lib/python3*/site-packages")
    if not folders:
        return {"missing": tree}
    top = folders[0]
    recorded = {}
    for record in glob.glob(top + "/*.dist-info/RECORD"):
        for line in rows(record):
            name, sha256, _ = line.rsplit(",", 2)
            path = os.path.normpath(os.path.join(top, name.strip('"')))
            # Launchers are not shipped, because they name an interpreter of the computer that built them.
            if path.startswith(top + "/") and not path.startswith(top + "/bin/"):
                recorded[path] = sha256.partition("=")[2]
    changed, added, loose = [], [], []
    with ThreadPoolExecutor() as pool:
        present = dict(pool.map(recorded_form, walk(top)))
    for path, (sha256, writable) in present.items():
        if writable:
            loose.append(path)
        if path in recorded:
            if recorded[path] and sha256 != recorded[path]:
                changed.append(path)
        elif not path.endswith(".pyc") and path != top + "/.lock":  # a file of uv
            added.append(path)
    missing = [path for path in recorded if path not in present and not path.endswith(".pyc")]
    return {"files": len(present), "changed": changed, "added": added, "missing": missing, "loose": loose}


def walk(top: str) -> Iterator[str]:
    for folder, _, files in os.walk(top):
        for name in files:
            yield os.path.join(folder, name)


def recorded_form(path: str) -> tuple[str, tuple[str, bool]]:
    found = os.lstat(path)
    loose = bool(found.st_mode & 0o022) or found.st_uid not in (0, os.geteuid())
    if path.endswith(".pyc"):
        return path, ("", loose)
    return path, (base64.urlsafe_b64encode(digest(path)).decode().rstrip("="), loose)
