"""The machine Paddock itself runs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paddock import process
from paddock.errors import BadInput
from paddock.guests import terminal as own_terminal
from paddock.process import Result


@dataclass(frozen=True)
class LocalGuest:
    """Runs programs here, in the caller's account, but never on the caller's terminal: they may be an agent's."""

    name: str = "this machine"

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        return process.run(argv, stdin=stdin, deadline=deadline, apart=True)

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        return own_terminal.attach(list(argv), terminal=terminal)

    def stream(self, argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None]) -> int:
        return process.stream(argv, out, err, apart=True)

    def forward(self, local: int, port: int) -> int:
        raise BadInput(f"the agent is on this machine: its port is 127.0.0.1:{port} already")
