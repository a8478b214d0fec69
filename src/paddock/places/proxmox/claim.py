"""A claim: a line in a container's notes by which a run tells those on other machines to keep away."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

_LINE: Final = re.compile(r"^paddock-claim: (\S+) until (\S+)$\n?", re.MULTILINE)


@dataclass(frozen=True)
class Claim:
    """Which machine is at it, and until when others should keep away. It expires, because its holder may die.

    Runs on one machine keep out of each other's way by the kernel's locks, which know who has died.
    """

    host: str
    until: datetime

    @classmethod
    def new(cls, host: str, now: datetime, lasts: timedelta) -> Self:
        return cls(host, (now + lasts).replace(microsecond=0))

    @classmethod
    def from_notes(cls, notes: str) -> Self | None:
        """Return the claim in a container's notes, if there is one that can be read."""
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
        return f"{without_claim(notes)}\npaddock-claim: {self.host} until {self.until.isoformat()}"

    def bars(self, host: str, now: datetime) -> bool:
        """Whether it keeps that machine away at that moment."""
        return self.host != host and now < self.until


def without_claim(notes: str) -> str:
    """Return the notes without any claim."""
    return _LINE.sub("", notes).strip()
