"""Start programs, always as a list of arguments and never through a shell. No other module does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pvebox.api.errors import SandboxError


@dataclass(frozen=True)
class ProcessResult:
    """The result of a program: exit code and output."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.code == 0


class CommandError(SandboxError):
    """A program failed that must succeed."""

    def __init__(self, ended: ProcessResult) -> None:
        said = (ended.err or ended.out).strip().split("\n")
        super().__init__(f"{ended.argv[0]} failed: {said[-1] if said else f'exit code {ended.code}'}")
        self.ended = ended


def attempt(
    *argv: str,
    stdin: str | None = None,
    timeout: float | None = 60,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> ProcessResult:
    """Run a program and return its result, also if it fails."""
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
        return ProcessResult(argv, 124, "", f"timed out after {timeout} s")
    return ProcessResult(argv, done.returncode, done.stdout, done.stderr)


def run(
    *argv: str,
    stdin: str | None = None,
    timeout: float | None = 60,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program and return its standard output. Raise a CommandError if it fails."""
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
    """Start a program and return the running process. Its output goes to the given files or is discarded."""
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


def start_ticks(pid: int) -> str:
    """Return the start time of a process in ticks since boot, which distinguishes processes with the same pid."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def write_pid_file(file: Path) -> None:
    """Write the pid and start time of this process to a file."""
    file.write_text(f"{os.getpid()} {start_ticks(os.getpid())}\n", encoding="ascii")


def is_alive(file: Path) -> bool:
    """Return whether the process of a pid file is running."""
    return _pid_in(file) is not None


def terminate_by_pid_file(file: Path) -> None:
    """Send SIGTERM to the process of a pid file if it is running."""
    pid = _pid_in(file)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)


def _pid_in(file: Path) -> int | None:
    try:
        pid, started = file.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return int(pid) if pid.isdecimal() and start_ticks(int(pid)) == started else None


def command_line(pid: int) -> str:
    """Return the command line of a process, or an empty text if there is no such process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def terminate_if_owned(pid: int, owner: str) -> bool:
    """Send SIGTERM to a process if its command line contains `owner`; return whether a signal was sent."""
    if owner not in command_line(pid):
        return False
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True
