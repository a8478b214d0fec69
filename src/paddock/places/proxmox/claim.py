"""A claim: a line in a container's notes by which a run excludes runs on other computers."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Self

from paddock.frozen import frozen

AGAIN: Final = "wait until it is done, and run the same command again"
_LINE: Final = re.compile(r"^paddock-claim: (\S+) until (\S+)$\n?", re.MULTILINE)


@frozen
class Claim:
    """The run that works on a container, and until when. A claim expires, because its run may die.

    The locks of one computer do not suffice: they use names and addresses, and a node may have several of both.
    """

    holder: str
    until: datetime

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

    def blocks(self, holder: str, now: datetime, has_ended: Callable[[str], bool]) -> bool:
        """Whether the claim excludes another run at that moment."""
        return self.holder != holder and now < self.until and not has_ended(self.holder)

    def over(self, container: str) -> str:
        """Return the sentence for a run that has to leave this container alone."""
        return f"{self.holder} is at work on {container} until {self.until:%H:%M:%S} UTC"


def without_claim(notes: str) -> str:
    """Return the notes without any claim."""
    return _LINE.sub("", notes).strip()
