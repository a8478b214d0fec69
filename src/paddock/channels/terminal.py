"""Run a program of an agent on this computer, without giving it the person's terminal."""

from __future__ import annotations

import fcntl
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from paddock.base import process
from paddock.base.process import Child
from paddock.onboard import terminal as relayed
from paddock.onboard.terminal import terminal_restored

__all__ = ["attach", "terminal_restored"]

_INTERRUPTED: Final = 130


def attach(argv: list[str], *, terminal: bool) -> int:
    """Run a program with the person's input and output, and return its exit code."""

    @contextmanager
    def start(stdin: int, stdout: int, stderr: int, controlling: bool) -> Iterator[Child]:
        options: dict[str, Any] = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        if controlling:
            options["preexec_fn"] = _set_controlling_terminal
        with process.started(argv, own_session=True, **options) as child:
            yield child

    try:
        return relayed.attach(start, terminal=terminal)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _set_controlling_terminal() -> None:
    """Make stdin the controlling terminal of the new session. Runs in the child."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
