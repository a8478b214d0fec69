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

from paddock import bounded, process
from paddock.backups.restic_failures import failure
from paddock.errors import PaddockError
from paddock.frozen import frozen
from paddock.process import DeadlinePassed, Pipes, ProgramMissing, Result
from paddock.spec.backup import ResticSpec
from paddock.spec.secrets import resolve

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
        with (
            _installed(),
            process.piped(
                ["restic", "--quiet", *arguments], env=self._environment, grace=_GRACE, deadline=self._seconds_left
            ) as pipes,
        ):
            yield pipes

    def output(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run restic to its end and return what it printed."""
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

    @property
    def _seconds_left(self) -> float | None:
        return None if self.until is None else max(self.until - time.monotonic(), 0)

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
