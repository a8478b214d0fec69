"""Open the destination that a file names."""

from __future__ import annotations

from pathlib import Path

from paddock.backups import Destination
from paddock.backups.folder import FolderDestination
from paddock.errors import BadInput
from paddock.spec.agent_id import AgentId
from paddock.spec.backup import BackupSpec


def destination_for(spec: BackupSpec, folder: Path, agent: AgentId) -> Destination:
    """Return the destination for the backups of an agent. Relative paths start at the folder of the file."""
    if spec.to.folder is not None:
        return FolderDestination(folder / spec.to.folder.expanduser() / str(agent), spec.recipients)
    raise BadInput("backups to restic are not supported yet")
