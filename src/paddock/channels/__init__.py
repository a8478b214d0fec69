"""The guest gate: channels that run programs on a machine, locally or over ssh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

from paddock.base import process
from paddock.base.errors import PaddockError
from paddock.base.process import CommandFailed, Pipes, Result


class Unreachable(PaddockError):
    """The machine does not answer, or its host key is not the expected one."""


class Guest(Protocol):
    """A channel that runs programs on a machine. Secrets are passed on stdin, never in argv."""

    @property
    def name(self) -> str:
        """The machine's name, for messages."""

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        """Run a program until it ends and return its result, whatever its exit code."""

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        """Run a program interactively and return its exit code.

        The program gets the user's input and output, but never the user's terminal on this machine.
        """

    def stream(self, argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None]) -> int:
        """Run a program, pass each line of stdout and stderr on as it arrives, and return the exit code."""

    def piped(self, argv: Sequence[str]) -> AbstractContextManager[Pipes]:
        """Start a program for a stream that does not fit into memory. It is killed when the context ends."""

    def forward(self, local: int, port: int) -> int:
        """Forward a local port to a loopback port of the machine until the user presses Ctrl-C."""


class OutputCut(PaddockError):
    """A program on the machine printed so much that its output was cut."""

    def __init__(self, what: str, machine: str) -> None:
        super().__init__(
            f"{what} on {machine} printed too much: the output was cut and cannot be trusted",
            hint="a program of the agent may be flooding it; `paddock logs` and `paddock shell` show more",
        )


class MachineDiskFull(PaddockError):
    """A filesystem of the machine is full."""

    def __init__(self, what: str, machine: str) -> None:
        hint = "`df -h` on the machine shows which filesystem is full; free some space there, then run `paddock up`"
        super().__init__(f"{what} on {machine} failed: no space is left there", hint=hint)


def expect(guest: Guest, what: str, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> str:
    """Run a program that must succeed, and return its stdout."""
    process.tell(what)
    result = guest.run(argv, stdin=stdin, deadline=deadline)
    if not result.ok and "no space left on device" in f"{result.err}{result.out}".lower():
        raise MachineDiskFull(what, guest.name)
    if not result.ok:
        raise CommandFailed(f"{what} on {guest.name}", result)
    if result.cut:
        raise OutputCut(what, guest.name)
    return result.out


_BEGIN: Final = "\0report=1\0"  # a login shell may print text before it, which is ignored
_END: Final = "end=ok"


def records(printed: str) -> list[tuple[str, str]]:
    """Return the names and values of a report in order. Raise an error if the report is incomplete."""
    before, begin, rest = printed.partition(_BEGIN)
    *found, after = rest.split("\0")
    if not begin or not found or found[-1] != _END or after.strip():
        raise PaddockError(
            f"the machine's report is incomplete: {(before + rest)[-200:]!r}",
            hint="run the command again; if that does not help, check what root's login shell prints there",
        )
    pairs = [record.partition("=") for record in found[:-1]]
    if not all(equals for _, equals, _ in pairs):
        raise PaddockError("the machine's report has a record without a value")
    return [(name, value) for name, _, value in pairs]
