"""Open the destination that a file names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from paddock.backups.contract import Destination
from paddock.backups.folder import FolderDestination
from paddock.backups.repository import Repository
from paddock.backups.restic import ResticDestination
from paddock.backups.signing import Signatures
from paddock.file.agent_id import AgentId
from paddock.file.models.backup import BackupSpec


def destination_for(
    spec: BackupSpec, folder: Path, agent: AgentId, say: Callable[[str], None], until: float | None = None
) -> Destination:
    """Return the destination for the backups of an agent. Relative paths start at the folder of the file.

    ``until`` is a time of the monotonic clock: a program that reads the destination is ended then.
    """
    signatures = _signatures(spec, folder)
    if spec.to.folder is not None:
        kept = folder / spec.to.folder.expanduser() / str(agent)
        return FolderDestination(kept, spec.recipients, signatures, beside=folder)
    assert spec.to.restic is not None  # noqa: S101 - exactly one of them is set
    return ResticDestination(Repository(spec.to.restic, folder, until), agent, say, signatures)


def _signatures(spec: BackupSpec, folder: Path) -> Signatures | None:
    if spec.signatures is None:
        return None
    key, allowed = spec.signatures.key, folder.absolute() / spec.signatures.allowed.expanduser()
    return Signatures(allowed, folder.absolute() / key.expanduser() if key else None)
