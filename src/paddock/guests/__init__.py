"""Channels to a machine: this one, or one over ssh. The guest gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from paddock.errors import PaddockError
from paddock.process import CommandFailed, Result


class Unreachable(PaddockError):
    """The machine does not answer, or not as the machine it should be."""


class Guest(Protocol):
    """Runs programs on a machine. Secrets go in through stdin, never through argv."""

    @property
    def name(self) -> str:
        """What people call the machine."""
        ...

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        """Run a program to its end, whatever its exit code."""
        ...

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        """Run a program with the person's input and output, on a terminal of its own; returns its exit code."""
        ...

    def stream(self, argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None]) -> int:
        """Run a program and hand on each line as it comes, of stdout and of stderr; returns its exit code."""
        ...

    def forward(self, local: int, port: int) -> int:
        """Make a port of the machine's loopback a local one, until the person ends it."""
        ...


class TooLong(PaddockError):
    """A program printed more than is read of it."""

    def __init__(self, what: str, machine: str) -> None:
        super().__init__(
            f"{what} on {machine} printed too much: the output was cut, so it cannot be relied upon",
            hint="something of the agent's may flood it; `paddock logs` and `paddock shell` show more",
        )


class NoRoom(PaddockError):
    """A filesystem of the machine is full."""

    def __init__(self, what: str, machine: str) -> None:
        hint = "`df -h` on the machine shows which filesystem is full; with room on it, `paddock up` goes on"
        super().__init__(f"{what} on {machine} failed: no space is left there", hint=hint)


def expect(guest: Guest, what: str, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> str:
    """Run a program that must succeed and return what it printed."""
    result = guest.run(argv, stdin=stdin, deadline=deadline)
    if not result.ok and "no space left on device" in f"{result.err}{result.out}".lower():
        raise NoRoom(what, guest.name)
    if not result.ok:
        raise CommandFailed(f"{what} on {guest.name}", result)
    if result.cut:
        raise TooLong(what, guest.name)
    return result.out
