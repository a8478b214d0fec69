"""A claim: a line in a container's notes by which a run excludes runs on other machines."""

from __future__ import annotations

import itertools
import os
import re
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

_LINE: Final = re.compile(r"^paddock-claim: (\S+) until (\S+)$\n?", re.MULTILINE)
_RUN: Final = re.compile(r"([1-9][0-9]{0,9})\.([0-9]{1,9})", re.ASCII)


_open: Final[set[int]] = set()  # numbers of the holders that are open in this process
_numbers: Final = itertools.count(1)


class Holder:
    """One run in one place, named host/process.number in its claims."""

    def __init__(self) -> None:
        self._number = next(_numbers)
        _open.add(self._number)

    def __str__(self) -> str:
        return f"{socket.gethostname()}/{os.getpid()}.{self._number}"

    def close(self) -> None:
        """End this run's claims."""
        _open.discard(self._number)


@dataclass(frozen=True)
class Claim:
    """The run that works on a container, and until when. A claim expires, because its run may die.

    The locks of one machine do not suffice: they use names and addresses, and a node may have several of both.
    """

    holder: str
    until: datetime

    @classmethod
    def new(cls, holder: Holder, now: datetime, lasts: timedelta) -> Self:
        return cls(str(holder), (now + lasts).replace(microsecond=0))

    @classmethod
    def from_notes(cls, notes: str) -> Self | None:
        """Return the claim in a container's notes, or None without a readable one."""
        match = _LINE.search(notes)
        if match is None:
            return None
        try:
            until = datetime.fromisoformat(match[2])
        except ValueError:
            return None
        return cls(match[1], until if until.tzinfo else until.replace(tzinfo=UTC))

    def written_into(self, notes: str) -> str:
        """Return the notes with this claim and no other."""
        return f"{without_claim(notes)}\npaddock-claim: {self.holder} until {self.until.isoformat()}"

    def blocks(self, holder: str, now: datetime) -> bool:
        """Whether the claim excludes another run at that moment; within one host only while its run is alive."""
        if self.holder == holder or now >= self.until:
            return False
        host, _, run = self.holder.partition("/")
        return host != holder.partition("/")[0] or _alive(run)


def _alive(run: str) -> bool:
    """Whether a run of this host is alive; older claims name only a host and count as ended."""
    match = _RUN.fullmatch(run)
    if match is None:
        return False
    pid, number = int(match[1]), int(match[2])
    if pid == os.getpid():
        return number in _open
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # the process belongs to another user
    return True


def without_claim(notes: str) -> str:
    """Return the notes without any claim."""
    return _LINE.sub("", notes).strip()
