"""Packages of npm that are known by their hash, from the registry that this machine is configured for."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from paddock import process
from paddock.errors import PaddockError
from paddock.process import CommandFailed, ProgramMissing

# Of the package nothing is run, here or later; and npm says nothing about itself.
_QUIET = ("--ignore-scripts", "--no-update-notifier", "--loglevel=error")


def fetch(package: str, version: str, sha512: str, folder: Path, kept: Path) -> Path:
    """Return the archive of a package, put into the folder by npm, if it is the one with that hash.

    npm knows the registry, its credentials and its certificates; none of them is written down here.
    """
    wanted = f"{package}@{version}"
    try:
        result = process.run(["npm", "pack", wanted, *_QUIET, f"--pack-destination={folder}"], deadline=300)
    except ProgramMissing:
        raise PaddockError(
            f"fetching {wanted} takes npm, which is not installed",
            hint="install it (the package npm of Debian and of Homebrew; no Node gets to the agent's machine),\n"
            f"or run `npm pack {wanted}` where it is, and copy the file to {shlex.quote(str(kept))}",
        ) from None
    if not result.ok:
        failed = CommandFailed(f"fetching {wanted}", result)
        failed.hint = "`npm config get registry` tells where npm looks for it"
        raise failed
    archive = next(folder.glob("*.tgz"), None)
    if archive is None:
        raise PaddockError(f"npm has fetched no {wanted}")
    if not has_hash(archive, sha512):
        raise PaddockError(
            f"{wanted} is not what it was: its SHA-512 is {_sha512(archive)}",
            hint="do not use it; `npm config get registry` tells where it came from",
        )
    return archive


def has_hash(file: Path, sha512: str) -> bool:
    """Whether a file is there and has that hash."""
    return file.is_file() and _sha512(file) == sha512


def _sha512(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha512").hexdigest()
