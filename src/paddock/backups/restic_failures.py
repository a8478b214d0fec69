"""Say in words why restic failed. Pure.

restic 0.14 has one exit code for all failures, so its messages have to be recognised; 0.17 and later have some codes.
"""

from __future__ import annotations

import re
from typing import Final

from paddock.diskfull import DiskFull
from paddock.errors import BadInput, PaddockError
from paddock.visible import one_line


class NoRepository(PaddockError):
    """There is no repository at the location yet."""


class AppendOnly(PaddockError):
    """The server of the repository lets nothing be removed."""


_ABSENT: Final = re.compile(
    r"unable to open config file:.*(no such file|not exist|404)|repository does not exist", re.IGNORECASE
)
_WRONG_PASSWORD: Final = re.compile(r"wrong password|an empty password")
_LOCKED: Final = re.compile(
    r"already locked(?: exclusively)? by (.*?)(?: by .*)?\s*(?:lock was created at .*\(([\dhm]+)(?:\.\d+)?s ago\))?$",
    re.MULTILINE,
)
_OWN_DISK: Final = re.compile(r"(\S*)/restic-temp-\S*: (?:no space left|disk quota exceeded)")
_FULL: Final = re.compile(r"no space left|quota ?exceeded|disk full|not enough (free )?space", re.IGNORECASE)
_DENIED: Final = re.compile(
    r"permission denied|access denied|forbidden|\(40[13]\)|read-only file system|not a directory", re.IGNORECASE
)
_APPEND_ONLY: Final = re.compile(
    r"blob not removed, server response: .*\(40[35]\)|unable to remove <.*40[35]", re.IGNORECASE
)
_UNREACHABLE: Final = re.compile(
    r"connection (refused|reset|closed|lost)|no such host|could not resolve|timed? ?out|no route to host"
    r"|network is unreachable|host key verification failed|unable to start the sftp session|broken pipe|\bEOF\b",
    re.IGNORECASE,
)
_DAMAGED: Final = re.compile(
    r"ciphertext verification failed|not found in (the )?(repository|index)|invalid data|hash mismatch"
    r"|cannot dump file: .*no such file|wrong data returned",
    re.IGNORECASE,
)
_OTHER_PROGRAM: Final = re.compile(r'exec: "([^"]+)": executable file not found')


def failure(repository: str, code: int, said: str) -> PaddockError:
    """Return the error for a restic that ended with a code and has said this on stderr."""
    line = _reason(said)
    if code == 12 or _WRONG_PASSWORD.search(said):
        return BadInput(f"the password of the restic repository {repository} is wrong", hint="see `backup.to.restic`")
    if code == 11 or _LOCKED.search(said):
        return _locked(repository, said)
    if code == 10 or _ABSENT.search(said):
        return NoRepository(f"there is no restic repository in {repository}", hint="`paddock backup` creates it")
    if found := _OTHER_PROGRAM.search(said):
        return PaddockError(f"the restic repository {repository} needs the program {one_line(found[1], 80)}")
    if found := _OWN_DISK.search(said):
        where = one_line(found[1], 200)
        return DiskFull(
            f"this machine's disk is full: restic cannot write its temporary files to {where}",
            hint="free some space there, or set TMPDIR to another folder",
        )
    if _APPEND_ONLY.search(said):
        return AppendOnly(
            f"the restic repository {repository} lets nothing be removed: it is append-only",
            hint="leave `backup.keep` out of the file, and remove old backups where the repository is kept",
        )
    for pattern, words, hint in (
        (_FULL, "has no space left", "`paddock backup prune` removes the backups that `backup.keep` does not keep"),
        (_DENIED, "cannot be used", None),
        (_DAMAGED, "is damaged", "`restic check --read-data` says where"),
        (_UNREACHABLE, "cannot be reached", "run the same command again when it answers"),
    ):
        if pattern.search(said):
            return PaddockError(f"the restic repository {repository} {words}: {line}", hint=hint)
    return PaddockError(
        f"restic failed with code {code} on the repository {repository}" + (f": {line}" if line else "")
    )


def _locked(repository: str, said: str) -> PaddockError:
    by, since = found.groups() if (found := _LOCKED.search(said)) else (None, None)
    return PaddockError(
        f"the restic repository {repository} is locked"
        + (f" by {one_line(by, 120)}" if by else "")
        + (f", for {since}s" if since else ""),
        hint="wait until that process has ended; if it is gone, `restic unlock` removes its lock",
    )


def _reason(said: str) -> str:
    """Return the line that says why: what ssh says about the connection, or else restic's last word."""
    lines = [line.strip() for line in said.replace("\x1b[2K", "").split("\n") if line.strip()]
    by_ssh = [line.removeprefix("subprocess ssh: ") for line in lines if line.startswith("subprocess ssh: ")]
    fatal = [line.removeprefix("Fatal: ") for line in lines if line.startswith("Fatal: ")]
    return one_line((by_ssh or fatal or lines or [""])[-1], 300)
