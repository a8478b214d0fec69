"""The packages of a lock: names, versions and hashes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from paddock.errors import BadInput
from paddock.frozen import frozen

_PACKAGE: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)(?: *; *([\x20-\x7e]*?))?")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@frozen
class Package:
    """A package of a lock."""

    name: str
    version: str
    marker: str  # where it is installed; empty if everywhere
    hashes: Sequence[str]  # SHA-256 of each file that may be installed


def packages(lock: str) -> list[Package]:
    """Return the packages of a lock in order. Another line than uv writes is an error."""
    found: list[Package] = []
    for number, line in enumerate(lock.split("\n"), 1):
        words = line.removesuffix("\\").strip()
        if not words or words.startswith("#"):
            continue
        if found and (hashed := _HASH.fullmatch(words)):
            found[-1] = replace(found[-1], hashes=(*found[-1].hashes, hashed[1]))
        elif package := _PACKAGE.fullmatch(words):
            found.append(Package(normal(package[1]), package[2], package[3] or "", ()))
        else:
            what = f"line {number} of the lock is no package with a version"
            raise BadInput(what, hint="`paddock template lock AGENT` writes a lock")
    return found


def normal(name: str) -> str:
    """Return a package's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()
