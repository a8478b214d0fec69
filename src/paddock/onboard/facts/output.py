"""Run a program and keep the beginning of its output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import Any

MOST = 4 << 20  # bytes of each stream; the agent writes some of them, and may write any number


class Program:
    """A program that was started. A program that prints more than MOST bytes is killed.

    It gets its input later, so that it loads while other things are done.
    """

    def __init__(self, argv: list[str]) -> None:
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        # A session of its own, so that the whole process group can be killed.
        self.child = subprocess.Popen(argv, **pipes, start_new_session=True)
        self.spoke = threading.Event()  # it has printed something, or has ended
        self.out = self.err = b""
        # Daemons: a program that left the process group may keep a pipe open after it was given up.
        self.threads = [threading.Thread(target=read, daemon=True) for read in (self.read_out, self.read_err)]
        for thread in self.threads:
            thread.start()

    @property
    def has_ended(self) -> bool:
        return self.child.poll() is not None

    def send(self, stdin: bytes) -> None:
        """Send the whole input. A program that does not read it keeps nobody waiting."""
        self.threads.append(threading.Thread(target=self.feed, args=[stdin], daemon=True))
        self.threads[-1].start()

    def ended(self) -> Program:
        """Wait until the program has ended, and return it with its output and exit code."""
        for thread in self.threads:
            thread.join()
        self.code = self.child.wait()
        self.cut = len(self.out) > MOST or len(self.err) > MOST
        self.out, self.err = self.out[:MOST], self.err[:MOST]
        return self

    def kill(self) -> None:
        """Kill the program with its children, unless somebody has waited for its end: then its pid may be another's."""
        if self.child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)

    def feed(self, stdin: bytes) -> None:
        with contextlib.suppress(BrokenPipeError), self.child.stdin or contextlib.nullcontext():
            self.child.stdin.write(stdin)  # type: ignore[union-attr]

    def read_out(self) -> None:
        first = self.head(self.child.stdout, 1)
        self.spoke.set()
        self.out = first + self.head(self.child.stdout, MOST)
        if len(self.out) > MOST:
            self.kill()

    def read_err(self) -> None:
        self.err = self.head(self.child.stderr, MOST + 1)
        if len(self.err) > MOST:
            self.kill()

    @staticmethod
    def head(stream: Any, most: int) -> bytes:
        return bytes(stream.read(most))


def output(argv: list[str], stdin: bytes = b"") -> Program:
    """Run a program to its end."""
    program = Program(argv)
    program.send(stdin)
    return program.ended()
