"""The memory of an agent: its texts in each backup, and the messages that it would forget after a restore."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from paddock.backups.contract import Backup, Backups, NotProven
from paddock.backups.history import Change, Texts, changes, difference
from paddock.base import clock
from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen
from paddock.base.text import one_line, visible
from paddock.channels import Guest
from paddock.channels.onboard import tried
from paddock.core.deployment import Deployment
from paddock.core.resolve import Located
from paddock.onboard.stream.database import CountMessages
from paddock.show.table import columns
from paddock.verbs.backup import among, chosen, destination_of, known, question

_MOST_ROWS: Final = 100_000  # the agent decides how much it changes
_AT_ONCE: Final = 4  # texts that are read at the same time; restic takes about a second for each


@frozen
class Shown:
    """The texts of one backup."""

    agent: str
    backup: str
    texts: Texts

    def as_data(self) -> dict[str, Any]:
        return asdict(self)

    def as_text(self) -> str:
        """Return the texts below their paths. They are indented, so that none of their lines looks like a path."""
        parts = [
            f"{one_line(path, 500)}\n" + "\n".join(f"  {visible(line)}".rstrip() for line in text.split("\n")).rstrip()
            for path, text in self.texts.items()
        ]
        return "\n\n".join(parts) or f"{self.agent} had no texts in backup {self.backup}"


@frozen
class History:
    """Which backup changed which text, the oldest first."""

    agent: str
    rows: Sequence[tuple[str, Change]]  # with the name of the backup

    def as_data(self) -> list[dict[str, Any]]:
        return [{"backup": name, **asdict(change)} for name, change in self.rows]

    def as_text(self) -> str:
        header = ["backup", "text", "change", "lines"]
        rows = [[name, each.text, each.change, f"+{each.added} -{each.removed}"] for name, each in self.rows]
        return columns([header, *rows])


@frozen
class Difference:
    """The changes of texts from one backup to another."""

    agent: str
    since: str
    until: str
    texts: dict[str, str]  # unified diffs by path

    def as_data(self) -> dict[str, Any]:
        return {"agent": self.agent, "from": self.since, "to": self.until, "texts": self.texts}

    def as_text(self) -> str:
        return "\n".join(self.texts.values()) or f"the texts of {self.since} and {self.until} are the same"


def show(agent: Deployment, which: str | None) -> Shown:
    """Return the texts of a backup, the newest one unless another is named."""
    destination = destination_of(agent)
    backup = chosen(agent, destination, which)
    return Shown(agent.name, backup.name, _texts(agent, destination, backup))


def history(agent: Deployment) -> History:
    """Compare each backup with the one before. Backups without texts are left out."""
    destination = destination_of(agent)
    listed = [each for each in destination.backups() if each.distrust is None]
    rows: deque[tuple[str, Change]] = deque(maxlen=_MOST_ROWS)
    before: Texts = {}
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for start in range(0, len(listed), _AT_ONCE):  # never the texts of all in memory
            some = listed[start : start + _AT_ONCE]
            for backup, texts in zip(some, pool.map(partial(_proven_texts, destination), some), strict=True):
                if texts is not None:
                    rows.extend((backup.name, change) for change in changes(before, texts))
                    before = texts
    if len(rows) == _MOST_ROWS:
        agent.reporter.say(f"only the newest {_MOST_ROWS} changes are shown")
    return History(agent.name, list(rows))


def diff(agent: Deployment, since: str | None, until: str | None) -> Difference:
    """Compare two backups: by default the newest one with the one before it."""
    destination = destination_of(agent)
    listed = destination.backups()
    last = among(agent, destination, listed, until)
    first = _before(agent, listed, last) if since is None else among(agent, destination, listed, since)
    old, new = _texts(agent, destination, first), _texts(agent, destination, last)
    names = (first.name, last.name)
    found = {change.text: difference(change.text, old, new, names) for change in changes(old, new)}
    return Difference(agent.name, *names, found)


def _before(agent: Deployment, listed: Sequence[Backup], backup: Backup) -> Backup:
    earlier = [each for each in listed if each.made < backup.made and not (each.replaced or each.distrust)]
    if not earlier:
        raise BadInput(f"{agent.name} has no backup before {backup.name} to compare with")
    return earlier[-1]


def _proven_texts(destination: Backups, backup: Backup) -> Texts | None:
    """Return the texts of a backup; None if they are not those that somebody has signed."""
    try:
        return destination.texts(destination.proven(backup))
    except NotProven:
        return None if backup.signed else destination.texts(backup)


def _texts(agent: Deployment, destination: Backups, backup: Backup) -> Texts:
    found = known(agent, backup)
    if found.doubts:
        agent.reporter.say(question(agent, found))
    texts = destination.texts(found.backup)
    if texts is None:
        raise PaddockError(
            f"the texts of backup {backup.name} were not kept, or cannot be read",
            hint="`paddock restore` can still restore it; a new backup keeps them again",
        )
    return texts


def since(agent: Located, guest: Guest, at: int) -> str:
    """Return a sentence about the messages since a time, which is in seconds since the epoch."""
    made = datetime.fromtimestamp(at, UTC)
    age = timedelta(seconds=int((clock.now() - made).total_seconds()))
    messages = agent.recipe.keeping(agent.spec).messages
    counted = ""
    if messages:
        asked = CountMessages(f"{agent.paths.home}/{messages.database}", messages.count, at, agent.account)
        number = tried(guest, asked).value
        known = isinstance(number, int) and 0 <= number < 10**11
        counted = f": {number} messages" if known else ": an unknown number of messages"
    return f"{agent.name} would forget what it learned in {age} since {made:%Y-%m-%d %H:%M} UTC{counted}"
