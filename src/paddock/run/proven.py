"""What is known about who made a backup, before anything is done with it."""

from __future__ import annotations

from dataclasses import replace

from paddock.backups import Backup, NotProven
from paddock.errors import NeedsPerson, Refused
from paddock.frozen import frozen
from paddock.run.backup import keeper
from paddock.run.deployment import Deployment


@frozen
class Known:
    """A backup, with the proof of who made it if there is one, and why it may be somebody else's."""

    backup: Backup
    doubts: tuple[str, ...] = ()

    @property
    def made(self) -> str:
        """Who made it and when, in words; empty if nobody signs backups."""
        if self.backup.proof is None:
            return ""
        return f"signed by {self.backup.proof.by} on {self.backup.made:%Y-%m-%d %H:%M} UTC"


def known(agent: Deployment, backup: Backup, *, unproven: bool = False) -> Known:
    """Find out who made a backup. Raise if it must not be used; a person may allow one that is ``unproven``."""
    if backup.distrust and backup.distrust.final:
        raise Refused(
            f"backup {backup.name} of {agent.name} is not used: {backup.distrust.why}",
            hint="it may be somebody else's: name an older backup."
            " If you made it yourself, take `recipients` out of the file while you restore it",
        )
    destination = keeper(agent, backup)
    doubts = [*destination.doubts(backup)]
    try:
        found = destination.proven(backup)
    except NotProven as error:
        why = backup.distrust.why if backup.distrust else error.message
        if (backup.distrust or backup.signed) and not unproven:
            raise Refused(
                f"nobody is known to have made backup {backup.name} of {agent.name}: {why}",
                hint="name another backup; `paddock restore --unproven` uses it all the same",
            ) from None
        found = replace(backup, distrust=None)
        doubts.append(why)
    return Known(found, tuple(doubts))


def expect_certain(agent: Deployment, found: Known) -> None:
    """Raise if only a person can say that a backup is used, and nobody can be asked."""
    if found.doubts:
        raise NeedsPerson(
            question(agent, found),
            hint="run it in a terminal, which asks; or add --unproven if you know that the backup is yours",
        )


def question(agent: Deployment, found: Known) -> str:
    """Return what to say about a backup that may be somebody else's."""
    return f"backup {found.backup.name} of {agent.name} may be somebody else's: {'; '.join(found.doubts)}"
