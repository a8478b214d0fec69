"""Where the state of an agent is saved before its version changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from paddock.backups import Destination
from paddock.backups.folder import FolderDestination
from paddock.backups.open import destination_for
from paddock.run.deployment import Deployment
from paddock.statefolder import state_folder


def destination_of_states(agent: Deployment) -> Destination:
    """Return the destination of the agent's backups, or Paddock's own folder if that keeps no streams."""
    return next(destinations_of_states(agent))


def destinations_of_states(agent: Deployment) -> Iterator[Destination]:
    """Yield the destinations that may have saved states of an agent: the file may have named none before."""
    if agent.spec.backup and keeps_streams(agent):
        yield destination_for(agent.spec.backup, agent.folder, agent.id, agent.reporter.say)
    identity = hashlib.sha256(f"{agent.place.traits.identity} {agent.id}".encode()).hexdigest()[:8]
    yield FolderDestination(state_folder() / "upgrades" / f"{agent.id}-{identity}", ())


def keeps_streams(agent: Deployment) -> bool:
    """Return whether the file names a destination that a state can be streamed to."""
    return agent.spec.backup is not None and agent.spec.backup.to.proxmox is None
