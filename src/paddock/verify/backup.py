"""Judge the age of an agent's newest backup, and its last drill. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from paddock.backups.contract import BackupsSeen
from paddock.base.text import one_line
from paddock.file.models.quantities import in_words
from paddock.verify.line import Line, Outcome

_AHEAD: Final = timedelta(hours=1)  # two clocks may differ by this much


def lines(agent: str, seen: BackupsSeen, now: datetime) -> Iterator[Line]:
    """Yield the lines about the backups of an agent."""
    yield Line.of("backup", is_recent(seen, now), newest_in_words(seen, now), _hint(agent, seen, now))
    if seen.unknown is not None:
        return
    evidence = drill_in_words(seen, now)
    if seen.drill is None:
        yield Line("backup.drill", Outcome.UNAVAILABLE, f"{evidence}; `paddock drill {agent}` proves a backup")
    else:
        hint = f"mend the cause, make a new backup, and run `paddock drill {agent}` again"
        yield Line.of("backup.drill", seen.drill.failure is None, evidence, hint)


def is_recent(seen: BackupsSeen, now: datetime) -> bool:
    """Whether there is a backup, and it is not older than the file allows."""
    if seen.newest is None:
        return False
    return -_AHEAD <= now - seen.newest.made <= timedelta(seconds=seen.max_age)


def newest_in_words(seen: BackupsSeen | None, now: datetime) -> str:
    """Return a sentence about the age of the newest backup."""
    if seen is None:
        return "-"
    if seen.unknown is not None:
        return f"unknown: {one_line(seen.unknown, 300)}"
    if seen.newest is None:
        return f"none in {seen.to}"
    age = now - seen.newest.made
    if age < -_AHEAD:
        return f"{seen.newest.name} is from the future, by the clock of this machine"
    beyond = f", more than {seen.max_age}" if age > timedelta(seconds=seen.max_age) else ""
    return f"{seen.newest.name}, {in_words(age.total_seconds())} old{beyond}"


def drill_in_words(seen: BackupsSeen | None, now: datetime) -> str:
    """Return a sentence about the last drill."""
    if seen is None:
        return "-"
    if seen.unknown is not None:
        return "unknown"
    if seen.drill is None:
        return "none yet"
    ago = in_words((now - seen.drill.at).total_seconds())
    if seen.drill.failure is not None:
        return f"{one_line(seen.drill.backup, 40)} failed {ago} ago: {one_line(seen.drill.failure, 300)}"
    return f"{one_line(seen.drill.backup, 40)} was restored {ago} ago, in {in_words(seen.drill.seconds)}"


def _hint(agent: str, seen: BackupsSeen, now: datetime) -> str:
    if seen.unknown is not None:
        return f"`paddock backup list {agent}` reads the destination again"
    if seen.newest is not None and now - seen.newest.made < -_AHEAD:
        return "correct the clock of this machine; if it is right, remove that backup"
    return f"`paddock backup {agent}` makes one now; `paddock schedule` makes one every day"
