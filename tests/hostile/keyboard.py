"""A user at a terminal: a shell on a pseudo-terminal, with a keyboard and a screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import paddock


class Keyboard:
    """Types on a terminal, and records its screen."""

    def __init__(self, pid: int, terminal: int) -> None:
        self.pid = pid
        self._terminal = terminal
        self.screen = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def sees(self, text: str, seconds: float = 20) -> bool:
        """Return whether a text appears on the screen within a time."""
        end = time.monotonic() + seconds
        while text not in self.screen:
            ready, _, _ = select.select([self._terminal], [], [], 0.05)
            if ready:
                try:
                    self.screen += os.read(self._terminal, 65536).decode(errors="replace")
                except OSError:
                    return text in self.screen
            elif time.monotonic() > end:
                return False
        return True

    def expect(self, text: str, seconds: float = 20) -> None:
        assert self.sees(text, seconds), self.screen

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Start a shell on a new pseudo-terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)  # they are ignored when the tests run as a background job
        os.environ.update(PS1="", PYTHONPATH=str(Path(paddock.__file__).parent.parent))
        os.execvp("sh", ["sh"])
    person = Keyboard(pid, terminal)
    try:
        person.type("stty -echo; echo rea''dy\n")
        person.expect("ready")
        yield person
    finally:
        subprocess.run(["pkill", "-KILL", "--session", str(pid)], check=False)  # programs left running in the shell
        os.close(terminal)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def local_guest(folder: Path, call: str) -> str:
    """Return a command line that makes a call on a local guest and prints the exit code."""
    program = folder / "program.py"
    program.write_text(
        "import os, sys\nfrom paddock.channels.local import LocalGuest\nguest = LocalGuest()\n"
        f"code = {call}\nprint(f'ended with {{code}}.', flush=True)\n"
    )
    return f"{sys.executable} {program}\n"
