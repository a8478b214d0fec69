"""Run a program of an agent interactively, without giving it the user's terminal.

A process that keeps a terminal open can read later input and, where the kernel allows TIOCSTI, insert input of its own.
So the program gets a pseudo-terminal or pipes in a new session, and Paddock relays the bytes. `script` of util-linux
could do the same, but it is not installed everywhere, and handles neither pipes nor Paddock's signals.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from paddock.base import process
from paddock.base.process import PIPE, Child

_CHUNK: Final = 1 << 16
_INTERRUPTED: Final = 130
_POLL_SECONDS: Final = 0.1  # how often to check whether the program has ended
# How long to read remaining output after the program has ended: another process may keep writing to its terminal.
_DRAIN_SECONDS: Final = 1.0


def attach(argv: list[str], *, terminal: bool) -> int:
    """Run a program with the user's input and output, but without their terminal, and return its exit code."""
    try:
        code = _on_pty(argv) if terminal and os.isatty(0) and os.isatty(1) else _on_pipes(argv)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 128 - code if code < 0 else code


def _on_pty(argv: list[str]) -> int:
    master, slave = os.openpty()
    try:
        termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(0))
        _copy_size(master)
        # If stderr is redirected to a file or a pipe, it stays redirected.
        stderr = slave if os.isatty(2) else 2
        options = {"stdin": slave, "stdout": slave, "stderr": stderr, "preexec_fn": _set_controlling_terminal}
        with process.started(argv, own_session=True, **options) as child:
            os.close(slave)
            slave = -1
            with _raw(master):
                _relay(child, _Input(master), {master: 1})
            return child.wait()
    finally:
        os.close(master)
        if slave >= 0:
            os.close(slave)


def _on_pipes(argv: list[str]) -> int:
    """Replace only the streams that are a terminal by pipes; the program inherits files and pipes directly."""
    pipes = {name: PIPE if os.isatty(number) else number for number, name in enumerate(("stdin", "stdout", "stderr"))}
    with process.started(argv, own_session=True, **pipes) as child:
        typed = _Input(child.stdin.fileno(), child.stdin.close) if child.stdin else None
        outputs = {pipe.fileno(): number for number, pipe in ((1, child.stdout), (2, child.stderr)) if pipe}
        _relay(child, typed, outputs)
        return child.wait()


def _set_controlling_terminal() -> None:
    """Make stdin the controlling terminal of the new session. Runs in the child."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def terminal_restored() -> Iterator[None]:
    """Restore the settings of the user's terminal when the context ends."""
    before = termios.tcgetattr(0) if os.isatty(0) else None
    try:
        yield
    finally:
        if before:
            # TCSAFLUSH discards pending input, so that the terminal's replies to the agent do not reach the shell.
            termios.tcsetattr(0, termios.TCSAFLUSH, before)


@contextmanager
def _raw(master: int) -> Iterator[None]:
    """Put the user's terminal into raw mode, so that keys like Ctrl-C reach the program, and follow its size."""
    resized = signal.signal(signal.SIGWINCH, lambda *_: _copy_size(master))
    try:
        with terminal_restored():
            tty.setraw(0)
            yield
    finally:
        signal.signal(signal.SIGWINCH, resized)


def _copy_size(master: int) -> None:
    with suppress(OSError):
        fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))


@dataclass
class _Input:
    """Input that the user typed and the program has not read yet."""

    to: int
    close: Callable[[], None] = lambda: None  # a pseudo-terminal is not closed: Ctrl-D ends its input
    waiting: bytes = b""
    more: bool = True

    def take(self, data: bytes) -> None:
        self.waiting += data
        self.more = bool(data)
        self.write()

    def write(self) -> None:
        try:
            self.waiting = self.waiting[os.write(self.to, self.waiting) :]
        except BlockingIOError:
            return
        except OSError:  # the program no longer reads its input
            self.waiting, self.more = b"", False
        if not self.more and not self.waiting:
            self.close()


def _relay(child: Child, typed: _Input | None, outputs: dict[int, int]) -> None:
    """Copy input and output until the program has ended and its remaining output is written."""
    if typed:
        os.set_blocking(typed.to, False)
    end = None
    while outputs or (typed and typed.more):
        if end is None and child.poll() is not None:
            end, typed = time.monotonic() + _DRAIN_SECONDS, None
        keyboard = [0] if typed and typed.more and len(typed.waiting) < _CHUNK else []
        full = [typed.to] if typed and typed.waiting else []
        readable, writable, _ = select.select([*outputs, *keyboard], full, [], _POLL_SECONDS if end is None else 0)
        if end is not None and (not readable or time.monotonic() > end):
            return
        if typed and writable:
            typed.write()
        for source in readable:
            data = _read(source)
            if source in outputs:
                _write(outputs[source], data)
                if not data:
                    del outputs[source]
            elif typed:
                typed.take(data)


def _read(source: int) -> bytes:
    try:
        return os.read(source, _CHUNK)
    except OSError:  # EIO: no process has the other end of the pseudo-terminal open any more
        return b""


def _write(to: int, data: bytes) -> None:
    while data:
        data = data[os.write(to, data) :]
