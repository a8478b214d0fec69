"""A guest for the machine that Paddock itself runs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from paddock.base import process
from paddock.base.errors import BadInput
from paddock.base.frozen import frozen
from paddock.base.process import Pipes, Result
from paddock.channels import terminal as own_terminal


@frozen
class LocalGuest:
    """Runs programs on this machine under the caller's account.

    A program may be an agent's, so it never gets the caller's terminal.
    """

    name: str = "this machine"

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        return process.run(argv, stdin=stdin, deadline=deadline, own_session=True)

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        return own_terminal.attach(list(argv), terminal=terminal)

    def stream(self, argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None]) -> int:
        return process.stream(argv, out, err, own_session=True)

    def piped(self, argv: Sequence[str]) -> AbstractContextManager[Pipes]:
        return process.piped(argv, own_session=True)

    def forward(self, local: int, port: int) -> int:
        raise BadInput(f"the agent is on this machine: its port is already reachable at 127.0.0.1:{port}")
