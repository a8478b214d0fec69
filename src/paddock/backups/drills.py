"""The record of a drill: a trial that a backup can be restored."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final, Self

from paddock import bounded
from paddock.frozen import frozen

LONGEST: Final = 64 << 10  # bytes of a record


@frozen
class Drill:
    """The result of one drill. The destination keeps the last one beside the backups."""

    backup: str  # its name
    at: datetime
    seconds: float  # from the start of the restore until the agent answered
    failure: str | None = None  # why the backup did not pass

    def as_json(self) -> bytes:
        """Return the record as it is kept."""
        return json.dumps(asdict(self) | {"at": self.at.astimezone(UTC).isoformat()}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self | None:
        """Return the record, or None if the text is not one."""
        try:
            found = bounded.parsed(text)
            at = datetime.fromisoformat(found["at"])
            why = found["failure"]
            return cls(str(found["backup"]), at, float(found["seconds"]), None if why is None else str(why))
        except (ValueError, KeyError, TypeError):
            return None
