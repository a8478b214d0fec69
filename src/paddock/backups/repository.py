"""Run restic on one repository, with its failures in words."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from paddock.base import bounded, process
from paddock.base.errors import BadInput, DiskFull, PaddockError
from paddock.base.frozen import frozen
from paddock.base.process import DeadlinePassed, Pipes, ProgramMissing, Result
from paddock.base.text import one_line
from paddock.file.models.backup import ResticSpec
from paddock.file.secrets.sources import resolve

_ANSWERS: Final = 180.0  # seconds until a repository counts as unreachable
_MOST: Final = 64 << 20  # bytes that restic may print about a repository; an archive is read in pieces
_GRACE: Final = 10.0  # seconds restic gets to remove its lock
# These would override the repository and the password of the file, or contradict them.
_OVERRIDING: Final = {"RESTIC_REPOSITORY_FILE", "RESTIC_PASSWORD_FILE", "RESTIC_PASSWORD_COMMAND"}


@frozen
class Repository:
    """A restic repository. Its location, its password and its secrets reach restic by the environment."""

    spec: ResticSpec
    folder: Path  # of the file; relative paths start here
    until: float | None = None  # time of the monotonic clock at which restic is ended

    @property
    def shown(self) -> str:
        """The location for messages, without a password."""
        return without_password(self._location.removeprefix("local:"))

    @property
    def _location(self) -> str:
        """Return the location with an absolute path, if it is a path. Other locations begin with a word and a colon."""
        path = self.spec.repository.removeprefix("local:")
        if path == self.spec.repository and re.match(r"[a-z][a-z0-9]*:", path):
            return path
        return f"local:{self.folder.absolute() / Path(path).expanduser()}"

    @functools.cached_property
    def _environment(self) -> dict[str, str]:
        secrets = resolve({**self.spec.environment, "RESTIC_PASSWORD": self.spec.password}, self.folder)
        found = {**os.environ, **{name: value.reveal() for name, value in secrets.items()}}
        found["RESTIC_REPOSITORY"] = self._location
        return {name: value for name, value in found.items() if name not in _OVERRIDING}

    def expect(self) -> None:
        """Raise unless the repository exists, can be opened and can be written: restic writes a lock into it."""
        try:
            with _installed():
                result = process.run(["restic", "cat", "config"], deadline=_ANSWERS, env=self._environment)
        except DeadlinePassed:
            raise PaddockError(f"{self.shown} did not answer within {_ANSWERS:.0f} s") from None
        if not result.ok:
            raise self._failure(result)

    @contextmanager
    def piped(self, *arguments: str) -> Iterator[Pipes]:
        """Start restic for a stream. If it runs at the end of the context, it is ended: nothing is saved then."""
        argv = ["restic", "--quiet", *arguments]
        left = None if self.until is None else max(self.until - time.monotonic(), 0)
        with _installed(), process.piped(argv, env=self._environment, grace=_GRACE, deadline=left) as pipes:
            yield pipes

    def output(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run restic to its end and return its output."""
        with self.piped(*arguments) as pipes:
            try:
                pipes.sink.write(stdin)
                pipes.sink.close()
            except BrokenPipeError:
                pass  # its exit code says why
            data = bounded.at_most(pipes.source, _MOST, f"what restic printed about {self.shown}")
            self.end(pipes)
        return data

    def end(self, pipes: Pipes) -> None:
        """Wait until restic has ended; raise if it failed."""
        try:
            result = pipes.end()
        except DeadlinePassed:
            raise PaddockError(f"{self.shown} did not answer in time") from None
        if not result.ok:
            raise self._failure(result)

    def _failure(self, result: Result) -> PaddockError:
        return failure(self.shown, result.code, without_password(result.err))


def without_password(text: str) -> str:
    """Return a text with the passwords in its URLs left out."""
    return re.sub(r"(//[^/:@\s]*):[^/@\s]*@", r"\1@", text)


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ProgramMissing:
        raise ProgramMissing(
            "the program restic is not installed on this machine", hint="on Debian: `apt install restic`"
        ) from None


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
    """Return the line with the reason: the error of ssh about the connection, or else the last line of restic."""
    lines = [line.strip() for line in said.replace("\x1b[2K", "").split("\n") if line.strip()]
    by_ssh = [line.removeprefix("subprocess ssh: ") for line in lines if line.startswith("subprocess ssh: ")]
    fatal = [line.removeprefix("Fatal: ") for line in lines if line.startswith("Fatal: ")]
    return one_line((by_ssh or fatal or lines or [""])[-1], 300)
