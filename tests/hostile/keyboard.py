"""A person at a real terminal: a shell on a pseudo-terminal, with a keyboard and a screen."""

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
    """What a person types, and sees."""

    def __init__(self, pid: int, terminal: int) -> None:
        self.pid = pid
        self._terminal = terminal
        self.screen = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def sees(self, text: str, seconds: float = 20) -> bool:
        """Whether a text is on the screen within a time."""
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
    """A shell on a terminal of its own, as root's would be."""
    pid, terminal = pty.fork()
    if pid == 0:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)  # a shell's background jobs ignore them, tests among them
        os.environ.update(PS1="", PYTHONPATH=str(Path(paddock.__file__).parent.parent))
        os.execvp("sh", ["sh"])
    person = Keyboard(pid, terminal)
    try:
        person.type("stty -echo; echo rea''dy\n")
        person.expect("ready")
        yield person
    finally:
        subprocess.run(["pkill", "-KILL", "--session", str(pid)], check=False)  # whatever was left running there
        os.close(terminal)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def local_guest(folder: Path, call: str) -> str:
    """A command line that does something with a guest that is this machine, and says how it ended."""
    program = folder / "program.py"
    program.write_text(
        "import os, sys\nfrom paddock.guests.local import LocalGuest\nguest = LocalGuest()\n"
        f"code = {call}\nprint(f'ended with {{code}}.', flush=True)\n"
    )
    return f"{sys.executable} {program}\n"
