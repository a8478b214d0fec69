"""Search for secrets in files that everyone can read."""

from __future__ import annotations

import base64
import glob
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

from paddock.onboard.facts.files import LARGEST, content, rows
from paddock.onboard.facts.output import output

SECONDS = 10.0  # for the whole search: a person's machine may have any number of files
ROOT = "/"
SHORTEST = 6  # characters of a secret; a shorter value occurs everywhere by chance


def leaks(env_files: list[str], search: list[str], skip: list[str], logs: list[str]) -> dict[str, Any]:
    """Return the paths where everyone can read a secret of the agent, by the names of the secrets."""
    values = secret_values(env_files)
    found: dict[str, list[str]] = {}
    looked, end = 0, time.monotonic() + SECONDS
    for path in chain(glob.glob("/proc/[0-9]*/cmdline"), open_texts(search, skip, end)):
        if time.monotonic() > end:
            break
        looked += 1
        data = content(path)
        for name in names_in(data, values):
            if not is_unchanged(path, data):
                found.setdefault(name, []).append(path)
    log = output(logs)
    for name in names_in(log.out, values):
        found.setdefault(name, []).append("the log")
    cut_short = log.cut or time.monotonic() > end
    return {"values": len(values), "looked": looked, "cut_short": cut_short, "found": found}


def secret_values(env_files: list[str]) -> dict[str, list[bytes]]:
    """Return each secret as it is and in base64."""
    values = {}
    for path in env_files:
        for line in rows(path):
            name, _, value = line.partition("=")
            if value[:1] == '"':
                value = re.sub(r"\\(.)", r"\1", value[1:-1])
            if len(value) >= SHORTEST:
                encoded = base64.b64encode(value.encode()).rstrip(b"=")
                values[name] = [value.encode(), encoded]
    return values


def names_in(data: bytes, values: dict[str, list[bytes]]) -> list[str]:
    return [name for name, forms in values.items() if any(form in data for form in forms)]


def is_unchanged(path: str, data: bytes) -> bool:
    """Whether a file in /etc is as a Debian package brought it. A short secret occurs in such a file by chance."""
    if not path.startswith("/etc/"):
        return False
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return f" {path} {digest}" in rows("/var/lib/dpkg/status", 64 * LARGEST)


def packaged() -> Iterator[str]:
    """Yield the files that Debian's packages brought. Those in /etc are left out, because people change them."""
    real: dict[str, str] = {}  # packages name files in /lib, which is a link to /usr/lib
    for path in glob.glob("/var/lib/dpkg/info/*.list"):
        for line in rows(path):
            folder, _, name = line.rpartition("/")
            if folder not in real:
                real[folder] = os.path.realpath(folder or "/")
            if not line.startswith("/etc/"):
                yield os.path.join(real[folder], name)


def open_texts(tops: list[str], skip: list[str], end: float) -> Iterator[str]:
    """Yield the files below these folders, on their filesystems, that everyone can reach and read, until a moment."""
    for top in tops:
        left_out = {*skip, *tops} - {top}
        device = device_of(top)
        brought = set(packaged()) if top == ROOT else set()
        for folder, below, files in os.walk(top):
            if time.monotonic() > end:
                return
            if not others(folder, stat.S_IXOTH) or device_of(folder) != device or folder in left_out:
                below.clear()
                continue
            for name in files:
                path = os.path.join(folder, name)
                if path not in brought and others(path, stat.S_IROTH):
                    yield path


def device_of(path: str) -> int | None:
    try:
        return os.lstat(path).st_dev
    except OSError:
        return None


def others(path: str, right: int) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return bool(mode & right) and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
