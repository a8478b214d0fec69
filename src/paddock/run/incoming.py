"""A state that is to become an agent's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import IO, Final, Protocol

from paddock.frozen import frozen

SPARE: Final = 64 << 20  # bytes that a stream may have more than it should, for what is not counted


class Origin(Protocol):
    """An install that exists without Paddock, and that a state is imported from."""

    @property
    def record(self) -> Mapping[str, str]:
        """What the agent's machine keeps about it."""
        ...

    def retire(self) -> None:
        """Stop it, and keep it from starting."""
        ...


@frozen
class Incoming:
    """A stream, from wherever it comes."""

    name: str  # in titles of steps, such as "backup 2026-11-16T02-02-12Z"
    size: int | None  # of its files, where it is known; what is much larger is refused
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    length: int | None = None  # of the stream, where it is known; files with holes are shorter in it
    of: Mapping[str, str] = field(default_factory=dict)  # what its manifest has to say, such as `agent`
    manifest: str | None = None  # the SHA-256 of its manifest, if that was signed
    origin: Origin | None = None  # of an import; such a state never replaces another one
    expects: Sequence[str] = ()  # paths that it must have
    discards: bool = False  # a person gives up the state that it replaces, which is not saved then
    aside: Sequence[str] = ()  # patterns of what does not become part of the agent's home
