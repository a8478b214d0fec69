"""Changes of an agent's version: the record of the last one in its state, and the steps of the next one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from paddock.base.frozen import frozen
from paddock.plan.actions import CheckDestination, SaveState, StopAgent
from paddock.plan.step import Phase, Risk, Step

IMAGE: Final = "image "  # begins the version of an agent whose image brings the code


@frozen
class Housing:
    """The supervisor of an agent's code, and the base image if it runs in a container."""

    runtime: str = ""  # empty if it is not known
    base: str = ""  # an image without the agent's code

    @property
    def in_words(self) -> str:
        return f"{self.base} in {self.runtime}" if self.base else self.runtime


@frozen
class Upgrade:
    """The last change of an agent's version. Its record is in the state, and outlives the machine."""

    before: str  # the version that the agent had
    after: str  # the version that it got
    backup: str  # of the state, made before the new version could touch it
    where: str  # the destination that has the backup
    at: int  # when the backup was made, in seconds since the epoch
    verified: bool = False  # the agent has passed `verify` with the new version
    back: bool = False  # the agent is on its way back to the old version and the backup
    why: str = ""  # why it goes back
    housing: Housing = Housing()  # of the version before


def differs(wanted: str, ran: str) -> bool:
    """Whether the agent's version changes. An unknown version is not another one."""
    return bool(wanted and ran and wanted != ran)


def save_steps(agent: str, ran: str, wanted: str, to: str, *, stops: bool) -> Iterator[Step]:
    """Yield the steps that save the state of a stopped agent before another version may touch it.

    Hermes runs with a database of a newer version without a word, so only the copy can bring the old state back.
    """
    reason = f"{ran} becomes {wanted}"
    yield check_destination(to, reason)
    if stops:
        yield Step("agent.stop", f"stop {agent}", reason, StopAgent(), Risk.RESTARTS, Phase.STATE)
    yield Step("state.save", f"save the state of {agent} to {to}", reason, SaveState(ran, wanted), phase=Phase.STATE)


def check_destination(to: str, reason: str) -> Step:
    """Return the step that checks, before anything stops, that a backup can be written and read again."""
    title = f"check that a backup can be kept in {to}"
    return Step("backup.reach", title, reason, CheckDestination(), phase=Phase.SOFTWARE)


def notes(agent: str, wanted: str, ran: str, last: Upgrade | None) -> Iterator[str]:
    """Yield a note for a downgrade: the older code gets the state as the newer code left it."""
    if not (differs(wanted, ran) and is_older(wanted, ran)):
        return
    way = ""
    if last and last.before == wanted and last.after == ran:
        way = f"; `paddock rollback {agent}` brings back the state from before the upgrade too"
    yield f"{wanted} is older than {ran}: it gets the state as {ran} leaves it, and may not understand it{way}"


def is_older(one: str, other: str) -> bool:
    """Whether a version is older than another one. A version that is no number is not."""
    both = [re.match(r"[0-9]+(\.[0-9]+)*", each) for each in (one, other)]
    first, second = ([int(part) for part in found[0].split(".")] if found else [] for found in both)
    return bool(first and second) and first < second
