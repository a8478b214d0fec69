"""A state that is to become an agent's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import IO, Final

SPARE: Final = 64 << 20  # bytes that a stream may have more than it should, for what is not counted


@dataclass(frozen=True)
class Incoming:
    """A stream, from wherever it comes."""

    name: str  # in titles of steps, such as "backup 2026-11-16T02-02-12Z"
    size: int  # of its files; what is much larger is refused
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    length: int | None = None  # of the stream, where it is known; files with holes are shorter in it
    of: Mapping[str, str] = field(default_factory=dict)  # what its manifest has to say, such as `agent`
