"""Checks of sockets of engines that the file gives to the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from paddock.recipes.checks import Attempt, Check
from paddock.recipes.workload import Verdict

_CONNECT: Final = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"


def checks(sockets: Sequence[str]) -> Iterator[Check]:
    """Yield a check for each socket: the agent can use it, and what that means."""
    for path in sockets:
        attempt = Attempt(("python3", "-I", "-c", _CONNECT, path))
        hint = "the socket needs a group other than root: see docs/containers.md; or remove it from container.volumes"
        yield Check("isolation.socket", attempt, partial(_usable, path), hint)


def _usable(path: str, done: Mapping[str, Any]) -> Verdict:
    if done["code"] == 0:
        return Verdict(True, f"the agent can use {path}: with it, it can become root on the machine")
    return Verdict(False, f"the agent cannot use {path}: {str(done['err']).strip().rpartition('Error: ')[2]}")
