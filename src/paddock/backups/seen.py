"""What a destination tells about the backups of an agent at one moment."""

from __future__ import annotations

from typing import Self

from paddock.backups import Backup, Backups
from paddock.backups.drills import Drill
from paddock.errors import PaddockError
from paddock.frozen import frozen
from paddock.spec.durations import Duration


@frozen
class BackupsSeen:
    """The newest backup and the last drill of an agent, or why they are not known."""

    max_age: Duration
    to: str
    newest: Backup | None = None
    drill: Drill | None = None
    unknown: str | None = None

    @classmethod
    def of(cls, destination: Backups, max_age: Duration) -> Self:
        """Read a destination. It may take long, if the destination is far away."""
        try:
            found = [each for each in destination.backups() if not (each.replaced or each.distrust)]
            return cls(max_age, destination.shown, found[-1] if found else None, destination.last_drill())
        except (PaddockError, OSError) as error:
            return cls(max_age, destination.shown, unknown=str(error))
