"""A claim: a line in a container's notes by which one run tells others that it is about to delete it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

_LINE: Final = re.compile(r"^paddock-claim: (\S+) until (\S+)$\n?", re.MULTILINE)
_LASTS: Final = timedelta(minutes=5)


@dataclass(frozen=True)
class Claim:
    """Who is at it, and until when others should keep away. It expires, because its holder may die."""

    who: str
    until: datetime

    @classmethod
    def new(cls, who: str, now: datetime) -> Self:
        return cls(who, (now + _LASTS).replace(microsecond=0))

    @classmethod
    def from_notes(cls, notes: str) -> Self | None:
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
        return f"{_LINE.sub('', notes).strip()}\npaddock-claim: {self.who} until {self.until.isoformat()}"

    def bars(self, who: str, now: datetime) -> bool:
        """Whether it keeps someone else away at that moment."""
        return self.who != who and now < self.until
