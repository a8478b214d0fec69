"""A state that is to become an agent's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class Incoming:
    """A stream, from wherever it comes."""

    name: str  # in titles of steps, such as "backup 2026-11-16T02-02-12Z"
    size: int  # of its files; what is much larger is refused
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    expects: Sequence[str] = ()  # paths that it must have
    aside: Sequence[str] = ()  # patterns of what does not become part of the agent's home
