"""The subprocess gate: the only place that starts a process and waits for it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.errors import PaddockError
from paddock.secret import Secret, mask


@dataclass(frozen=True)
class Result:
    """What a finished process said."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.code == 0


class ProgramMissing(PaddockError):
    """A program Paddock needs is not installed."""


class DeadlinePassed(PaddockError):
    """A process took longer than it may."""


class CommandFailed(PaddockError):
    """A process ended with a code other than 0."""

    def __init__(self, what: str, result: Result) -> None:
        last = "\n".join((result.err.strip() or result.out.strip()).splitlines()[-12:])
        super().__init__(f"{what} failed with code {result.code}" + (f":\n{last}" if last else ""))
        self.result = result


def attach(argv: Sequence[str]) -> int:
    """Run a program on the person's own terminal, until it ends; returns its exit code."""
    try:
        return subprocess.run(list(argv), check=False).returncode
    except FileNotFoundError:
        raise ProgramMissing(f"the program {argv[0]} is not installed") from None
    except KeyboardInterrupt:
        return 130


def run(
    argv: Sequence[str],
    *,
    stdin: bytes | Path = b"",
    deadline: float = 60.0,
    env: Mapping[str, str] | None = None,
) -> Result:
    """Run a program to its end and return what it said, with secrets masked."""
    start = time.monotonic()
    done = _finished(argv, stdin, deadline, env)
    return Result(
        argv=tuple(argv),
        code=done.returncode,
        out=mask(done.stdout.decode(errors="replace")),
        err=mask(done.stderr.decode(errors="replace")),
        seconds=time.monotonic() - start,
    )


def run_for_secret(argv: Sequence[str], *, deadline: float = 60.0) -> Secret:
    """Run a program and return what it printed as a secret; only its complaints are ever shown."""
    start = time.monotonic()
    done = _finished(argv, b"", deadline, None)
    try:
        secret = Secret(done.stdout.decode())
    except UnicodeDecodeError:
        raise PaddockError(f"{argv[0]} printed something that is not a text in UTF-8") from None
    if done.returncode != 0:
        complaint = mask(done.stderr.decode(errors="replace"))
        result = Result(tuple(argv), done.returncode, "", complaint, time.monotonic() - start)
        raise CommandFailed(str(argv[0]), result)
    return secret


def _finished(
    argv: Sequence[str], stdin: bytes | Path, deadline: float, env: Mapping[str, str] | None
) -> subprocess.CompletedProcess[bytes]:
    try:
        with ExitStack() as opened:
            # A file need not fit into memory.
            source = opened.enter_context(stdin.open("rb")) if isinstance(stdin, Path) else None
            given: dict[str, Any] = {"stdin": source} if source else {"input": stdin}
            return subprocess.run(list(argv), **given, capture_output=True, timeout=deadline, env=env, check=False)
    except FileNotFoundError:
        raise ProgramMissing(f"the program {argv[0]} is not installed") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its arguments are unusable"
        raise PaddockError(f"the program {argv[0]} cannot be started: {reason}") from None
    except subprocess.TimeoutExpired:
        raise DeadlinePassed(f"{argv[0]} did not end within {deadline:.0f} s") from None
