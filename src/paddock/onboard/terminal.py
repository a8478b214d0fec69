"""Run a program of an agent interactively, without giving it the terminal of a person.

A process that keeps a terminal open can read later input and, where the kernel allows TIOCSTI, insert input of its own.
So the program gets a pseudo-terminal or pipes in a new session, and the bytes are relayed. `script` of util-linux could
do the same, but it is not installed everywhere, and handles neither pipes nor Paddock's signals.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import termios
import time
import tty
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from typing import Protocol

    class Running(Protocol):
        """A program that was started."""

        def poll(self) -> int | None: ...

        def wait(self) -> int: ...

    # Starts a program with these descriptors as stdin, stdout and stderr; the first may become its terminal.
    Start = Callable[[int, int, int, bool], AbstractContextManager[Running]]

_CHUNK = 1 << 16
_POLL_SECONDS = 0.1  # how often to check whether the program has ended
# How long to read remaining output after the program has ended: another process may keep writing to its terminal.
_DRAIN_SECONDS = 1.0


def attach(start: Start, *, terminal: bool) -> int:
    """Run a program with the person's input and output, but without their terminal, and return its exit code."""
    code = _on_pty(start) if terminal and os.isatty(0) and os.isatty(1) else _on_pipes(start)
    return 128 - code if code < 0 else code


def _on_pty(start: Start) -> int:
    master, slave = os.openpty()
    try:
        termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(0))
        _copy_size(master)
        # If stderr is redirected to a file or a pipe, it stays redirected.
        with start(slave, slave, slave if os.isatty(2) else 2, True) as running:
            os.close(slave)
            slave = -1
            with _raw(master):
                _relay(running, _Input(master), {master: 1})
            return running.wait()
    finally:
        os.close(master)
        if slave >= 0:
            os.close(slave)


def _on_pipes(start: Start) -> int:
    """Replace only the streams that are a terminal by pipes; the program inherits files and pipes directly."""
    ours, theirs = {}, [0, 1, 2]
    try:
        for number in (0, 1, 2):
            if os.isatty(number):
                reading, writing = os.pipe()
                theirs[number], ours[number] = (reading, writing) if number == 0 else (writing, reading)
        with start(theirs[0], theirs[1], theirs[2], False) as running:
            _close(theirs[number] for number in ours)
            theirs = [0, 1, 2]
            typed = _Input(ours[0], lambda: _close([ours.pop(0)])) if 0 in ours else None
            _relay(running, typed, {ours[number]: number for number in (1, 2) if number in ours})
            return running.wait()
    finally:
        _close([*ours.values(), *(each for each in theirs if each > 2)])


def _close(descriptors: Iterable[int]) -> None:
    for each in descriptors:
        os.close(each)


@contextmanager
def terminal_restored() -> Iterator[None]:
    """Restore the settings of the person's terminal when the context ends."""
    before = termios.tcgetattr(0) if os.isatty(0) else None
    try:
        yield
    finally:
        if before:
            # TCSAFLUSH discards pending input, so that the terminal's replies to the agent do not reach the shell.
            termios.tcsetattr(0, termios.TCSAFLUSH, before)


@contextmanager
def _raw(master: int) -> Iterator[None]:
    """Put the person's terminal into raw mode, so that keys like Ctrl-C reach the program, and follow its size."""
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


class _Input:
    """Input that the person typed and the program has not read yet."""

    def __init__(self, to: int, close: Callable[[], None] = lambda: None) -> None:
        self.to = to
        self.close = close  # a pseudo-terminal is not closed: Ctrl-D ends its input
        self.waiting = b""
        self.more = True

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


def _relay(running: Running, typed: _Input | None, outputs: dict[int, int]) -> None:
    """Copy input and output until the program has ended and its remaining output is written."""
    if typed:
        os.set_blocking(typed.to, False)
    end = None
    while outputs or (typed and typed.more):
        if end is None and running.poll() is not None:
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
