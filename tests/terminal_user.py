"""A person at a terminal: starts a command in a pseudo-terminal, waits for its words, and types answers."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class TerminalUser:
    """The other end of a command's terminal. ``shown`` is everything that the terminal has displayed."""

    def __init__(self, pid: int, terminal: int) -> None:
        self.pid = pid
        self._terminal = terminal
        self.shown = ""
        self._read = 0  # how much of it was waited for
        self.typed = 0  # how many answers

    def wait_for(self, words: str, seconds: float = 60) -> str:
        """Read until the words appear, and return the text up to their end since the last wait."""
        end = time.monotonic() + seconds
        while (at := self.shown.find(words, self._read)) < 0:
            assert time.monotonic() < end, f"{words!r} did not appear:\n{self.shown}"
            assert self._receive(0.2) or not self._ended, f"the command ended without {words!r}:\n{self.shown}"
        begin, self._read = self._read, at + len(words)
        return self.shown[begin : self._read]

    def answer(self, prompt: str, typed: str, seconds: float = 60) -> str:
        """Wait for a prompt, type an answer, and return the text before the prompt."""
        before = self.wait_for(prompt, seconds)
        self.type(f"{typed}\n")
        self.typed += 1
        return before

    def type(self, letters: str) -> None:
        os.write(self._terminal, letters.encode())

    def end(self, seconds: float = 300) -> int:
        """Read until the command ends, and return its exit code."""
        end = time.monotonic() + seconds
        while not self._ended:
            assert time.monotonic() < end, f"the command did not end:\n{self.shown}"
            self._receive(0.2)
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    _ended = False

    def _receive(self, seconds: float) -> bool:
        if self._ended or not select.select([self._terminal], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._terminal, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # Linux's end of a terminal
                raise
            data = b""
        self._ended = not data
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


@contextmanager
def at_a_terminal(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], columns: int = 80
) -> Iterator[TerminalUser]:
    """Start a command on a terminal of its own, and kill it when the block ends."""
    pid, terminal = pty.fork()
    if pid == 0:  # the child: its terminal is the new one
        try:
            os.chdir(folder)
            os.execvpe(command[0], list(command), dict(environment))
        finally:
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    user = TerminalUser(pid, terminal)
    try:
        yield user
    finally:
        if user.pid:
            os.kill(user.pid, signal.SIGKILL)
            os.waitpid(user.pid, 0)
        os.close(terminal)
