"""Destinations of backups: the backups in them, the last drill, and an observation of both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import IO, Any, Final, Protocol, Self

from paddock.backups.verified import Verified
from paddock.base import bounded
from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.file.models.quantities import Duration

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


_STAMP: Final = "%Y-%m-%dT%H-%M-%SZ"
UPGRADE: Final = "upgrade"  # the purpose of a backup that was made before another version could touch the state
REPLACED: Final = "replaced"  # the purpose of one of a state that a restore or a rollback has replaced
UNFINISHED: Final = timedelta(days=1)  # an incomplete backup that is older will not be completed any more


class NotProven(PaddockError):
    """No signature says who made a backup."""


@frozen
class Proof:
    """The signed statement about a backup."""

    by: str
    manifest: str  # its SHA-256, and with it every file of the backup
    texts: str | None  # the SHA-256 of the texts that are kept beside the backup


@frozen
class Distrust:
    """Why a backup does not count."""

    why: str
    final: bool  # not even a person can say that it is used all the same


@frozen
class Backup:
    """One backup that is complete."""

    name: str  # among the backups of its agent
    made: datetime
    size: int  # bytes that it takes
    # agent, kind, version, from, files and bytes of its manifest, the length of the stream, and perhaps its purpose.
    # One that was just made has all of the manifest but the files. Of an archive that the place made, only agent, kind
    # and version are known.
    about: Mapping[str, Any]
    texts_in: str | None = None  # where its texts are, if the list of backups tells that
    encrypted: bool = False  # for recipients
    signed: bool = False  # there is a signature; who made it is not known before `proven`
    distrust: Distrust | None = None
    proof: Proof | None = None

    @property
    def replaced(self) -> bool:
        """Whether its state was replaced on purpose. Such a backup is used only if a person names it."""
        return self.about.get("purpose") == REPLACED


class Backups(Protocol):
    """The backups of one agent. A backup that was interrupted is not in the list."""

    @property
    def shown(self) -> str:
        """The destination, for messages."""

    def check(self) -> None:
        """Raise unless a backup can be written now and read again later."""

    def backups(self) -> Sequence[Backup]:
        """Return all complete backups, the oldest first."""

    def read(self, backup: Backup) -> AbstractContextManager[IO[bytes]]:
        """Open a backup for reading: the state as a stream."""

    def remove(self, backups: Sequence[Backup]) -> None:
        """Delete backups. What interrupted backups have left may be deleted too."""

    def doubts(self, backup: Backup) -> Sequence[str]:
        """Return why a backup may be somebody else's, beside the question who signed it."""

    def proven(self, backup: Backup) -> Backup:
        """Return a backup with the proof of who made it, if backups are signed. Raise ``NotProven`` without a proof."""

    def signer(self, backup: Backup) -> str:
        """Return the text about the signature of a backup, for a list."""

    def texts(self, backup: Backup) -> Mapping[str, str] | None:
        """Return the texts of the agent's memory at the time of a backup, or None if they were not kept."""

    def note_drill(self, drill: Drill) -> None:
        """Keep the record of a drill, and drop the earlier record."""

    def last_drill(self) -> Drill | None:
        """Return the record of the last drill."""


class Destination(Backups, Protocol):
    """Backups that are made from streams."""

    def save(self, stream: Verified, made: datetime) -> Backup:
        """Read a stream to its end and keep it, and its texts. Raise if it is not complete; then nothing is kept."""


def name_at(made: datetime) -> str:
    """Return the name of the backup that was made at a time."""
    return made.astimezone(UTC).strftime(_STAMP)


def time_of(name: str) -> datetime | None:
    """Return when the backup of a name was made, or None if it is not the name of a backup."""
    try:
        made = datetime.strptime(name, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    return made if name_at(made) == name else None


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
