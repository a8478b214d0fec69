"""The gate in front of commands that a file names: a process runs only those that its account has approved."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from paddock.base.errors import NeedsPerson
from paddock.base.text import visible

_allowed: Final[set[tuple[str, ...]]] = set()


def allow(commands: Iterable[Sequence[str]]) -> None:
    """Let this process run these commands."""
    _allowed.update(map(tuple, commands))


def expect_allowed(command: Sequence[str]) -> None:
    """Raise an error unless this process may run the command."""
    if tuple(command) not in _allowed:
        raise NeedsPerson(
            f"this account has not approved the command: {visible(shlex.join(command))}",
            hint="`paddock approve` shows the commands of the file, and asks",
        )
