"""A program of an agent's machine at the person's keyboard, on a terminal that is not the person's own.

Whoever holds a terminal can read what is typed there later, and where the kernel allows it, type into it (TIOCSTI).
So an agent's program gets a pseudo-terminal, or pipes, in a session of its own, and Paddock carries the bytes. `script`
of util-linux could do the same, but it is not installed everywhere and knows neither pipes nor our signals.
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

from paddock import process
from paddock.process import PIPE, Child

_CHUNK: Final = 1 << 16
_INTERRUPTED: Final = 130
_LOOK: Final = 0.1  # seconds between two looks whether the program has ended
_REST: Final = 1.0  # seconds for the rest of what it said: others may hold its terminal, and say more for ever


def attach(argv: list[str], *, terminal: bool) -> int:
    """Run a program with the person's input and output, but not with their terminal; returns its exit code."""
    try:
        code = _on_pty(argv) if terminal and os.isatty(0) and os.isatty(1) else _on_pipes(argv)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 128 - code if code < 0 else code


def _on_pty(argv: list[str]) -> int:
    master, slave = os.openpty()
    try:
        termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(0))
        _same_size(master)
        # What is written to a file or a pipe stays there.
        complaints = slave if os.isatty(2) else 2
        ours = {"stdin": slave, "stdout": slave, "stderr": complaints, "preexec_fn": _take_terminal}
        with process.started(argv, apart=True, **ours) as child:
            os.close(slave)
            slave = -1
            with _raw(master):
                _carry(child, _Input(master), {master: 1})
            return child.wait()
    finally:
        os.close(master)
        if slave >= 0:
            os.close(slave)


def _on_pipes(argv: list[str]) -> int:
    """Only what is a terminal is replaced: files and pipes are the program's as they are."""
    pipes = {name: PIPE if os.isatty(number) else number for number, name in enumerate(("stdin", "stdout", "stderr"))}
    with process.started(argv, apart=True, **pipes) as child:
        given = _Input(child.stdin.fileno(), child.stdin.close) if child.stdin else None
        said = {pipe.fileno(): number for number, pipe in ((1, child.stdout), (2, child.stderr)) if pipe}
        _carry(child, given, said)
        return child.wait()


def _take_terminal() -> None:
    """In the child, which leads a new session: its input is the session's terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def restored() -> Iterator[None]:
    """The person's terminal is afterwards as it was before, however this ends."""
    before = termios.tcgetattr(0) if os.isatty(0) else None
    try:
        yield
    finally:
        if before:
            # With what came in meanwhile thrown away: a terminal's answers to the agent are not typed into a shell.
            termios.tcsetattr(0, termios.TCSAFLUSH, before)


@contextmanager
def _raw(master: int) -> Iterator[None]:
    """The person's terminal passes every key on, also Ctrl-C, and tells of its size."""
    resized = signal.signal(signal.SIGWINCH, lambda *_: _same_size(master))
    try:
        with restored():
            tty.setraw(0)
            yield
    finally:
        signal.signal(signal.SIGWINCH, resized)


def _same_size(master: int) -> None:
    with suppress(OSError):
        fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))


@dataclass
class _Input:
    """What was typed and the program has not taken yet."""

    to: int
    close: Callable[[], None] = lambda: None  # a terminal has no end of input but the one that is typed
    waiting: bytes = b""
    more: bool = True

    def take(self, data: bytes) -> None:
        self.waiting += data
        self.more = bool(data)
        self.pass_on()

    def pass_on(self) -> None:
        try:
            self.waiting = self.waiting[os.write(self.to, self.waiting) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more
            self.waiting, self.more = b"", False
        if not self.more and not self.waiting:
            self.close()


def _carry(child: Child, given: _Input | None, said: dict[int, int]) -> None:
    """Carry bytes both ways until the program has ended and what it said is told."""
    if given:
        os.set_blocking(given.to, False)
    rest = None
    while said or (given and given.more):
        if rest is None and child.poll() is not None:
            rest, given = time.monotonic() + _REST, None
        typed = [0] if given and given.more and len(given.waiting) < _CHUNK else []
        full = [given.to] if given and given.waiting else []
        readable, writable, _ = select.select([*said, *typed], full, [], _LOOK if rest is None else 0)
        if rest is not None and (not readable or time.monotonic() > rest):
            return
        if given and writable:
            given.pass_on()
        for source in readable:
            data = _read(source)
            if source in said:
                _write(said[source], data)
                if not data:
                    del said[source]
            elif given:
                given.take(data)


def _read(source: int) -> bytes:
    try:
        return os.read(source, _CHUNK)
    except OSError:  # EIO: no process holds the other end of a terminal any more
        return b""


def _write(to: int, data: bytes) -> None:
    while data:
        data = data[os.write(to, data) :]
