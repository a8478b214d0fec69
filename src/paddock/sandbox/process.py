"""The one place where the sandbox starts programs: always a list, never a shell."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .errors import SandboxError


@dataclass(frozen=True)
class Ended:
    """How a program ended, and what it said."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.code == 0


class CommandError(SandboxError):
    """A program that had to succeed and did not."""

    def __init__(self, ended: Ended) -> None:
        said = (ended.err or ended.out).strip().split("\n")
        super().__init__(f"{ended.argv[0]} failed: {said[-1] if said else f'exit code {ended.code}'}")
        self.ended = ended


def attempt(
    *argv: str,
    stdin: str | None = None,
    timeout: float | None = 60,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Ended:
    """Run a program and return how it ended, whatever that is."""
    program = shutil.which(argv[0])
    if program is None:
        raise SandboxError(f"The program {argv[0]} is not installed.", hint=f"Install {argv[0]}.")
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            env=None if environment is None else dict(environment),
            cwd=cwd,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ended(argv, 124, "", f"timed out after {timeout} s")
    return Ended(argv, done.returncode, done.stdout, done.stderr)


def run(
    *argv: str,
    stdin: str | None = None,
    timeout: float | None = 60,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program that has to succeed and return what it printed."""
    ended = attempt(*argv, stdin=stdin, timeout=timeout, environment=environment)
    if not ended.ok:
        raise CommandError(ended)
    return ended.out


def spawn(
    *argv: str,
    stdin: IO[bytes] | None = None,
    output: IO[bytes] | None = None,
    errors: IO[bytes] | None = None,
    detached: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program and return it running; what it says goes to files, or nowhere."""
    program = shutil.which(argv[0])
    if program is None:
        raise SandboxError(f"The program {argv[0]} is not installed.", hint=f"Install {argv[0]}.")
    return subprocess.Popen(
        [program, *argv[1:]],
        stdin=stdin if stdin is not None else subprocess.DEVNULL,
        stdout=output if output is not None else subprocess.DEVNULL,
        stderr=errors or output or subprocess.DEVNULL,
        start_new_session=detached,
    )


def birth(pid: int) -> str:
    """When a process started, in ticks since boot: tells it from a later one with its number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def note_own_pid(file: Path) -> None:
    """Write down this process so that another can find it, and it alone."""
    file.write_text(f"{os.getpid()} {birth(os.getpid())}\n", encoding="ascii")


def is_alive(file: Path) -> bool:
    """Whether the process written down in a file still lives."""
    return _noted(file) is not None


def end_noted(file: Path) -> None:
    """Ask the process written down in a file to end, if it lives."""
    pid = _noted(file)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)


def _noted(file: Path) -> int | None:
    try:
        pid, started = file.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return int(pid) if pid.isdecimal() and birth(int(pid)) == started else None


def command_line(pid: int) -> str:
    """The command line of a process, or nothing if there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def end(pid: int, owner: str) -> bool:
    """End a process if its command line carries the owner's mark; return whether it did."""
    if owner not in command_line(pid):
        return False
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True
