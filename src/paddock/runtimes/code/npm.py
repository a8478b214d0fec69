"""Fetch npm packages with a known hash from the registry that npm is configured for."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from paddock.base import process
from paddock.base.errors import PaddockError
from paddock.base.process import CommandFailed, ProgramMissing

# No script of the package is run, and npm prints no notices about itself.
_QUIET = ("--ignore-scripts", "--no-update-notifier", "--loglevel=error")


def fetch(package: str, version: str, sha512: str, folder: Path, kept: Path) -> Path:
    """Fetch a package into the folder with npm and return its archive. Another hash is an error.

    npm's own configuration names the registry, its credentials and its certificates.
    """
    wanted = f"{package}@{version}"
    # --prefix: an .npmrc in the current folder, which may be somebody else's, could send variables to its registry.
    into = (f"--prefix={folder}", f"--pack-destination={folder}")
    try:
        result = process.run(["npm", "pack", wanted, *_QUIET, *into], deadline=300)
    except ProgramMissing:
        raise PaddockError(
            f"fetching {wanted} needs npm, which is not installed",
            hint="install npm (package npm in Debian and Homebrew; Node is not installed on the agent's machine),\n"
            f"or run `npm pack {wanted}` on a computer with npm, and copy the file to {shlex.quote(str(kept))}",
        ) from None
    if not result.ok:
        failed = CommandFailed(f"fetching {wanted}", result)
        failed.hint = "`npm config get registry` prints the registry that npm uses"
        raise failed
    archive = next(folder.glob("*.tgz"), None)
    if archive is None:
        raise PaddockError(f"npm fetched no archive of {wanted}")
    if not has_hash(archive, sha512):
        raise PaddockError(
            f"{wanted} does not have the expected content: its SHA-512 is {_sha512(archive)}",
            hint="do not use it; `npm config get registry` prints where it came from",
        )
    return archive


def has_hash(file: Path, sha512: str) -> bool:
    """Return whether the file exists and has this hash."""
    return file.is_file() and _sha512(file) == sha512


def _sha512(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha512").hexdigest()
