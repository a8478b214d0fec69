"""Save backups of a folder to the destination that a file names, without a machine."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from onboard.streams import sent
from paddock.backups.contract import Destination
from paddock.backups.open import destination_for
from paddock.backups.verified import Verified
from paddock.file.agent_id import AgentId
from paddock.kinds import load
from paddock.onboard.stream.layout import matcher

TEXTS = matcher([".hermes/SOUL.md", ".hermes/memories/*.md"])


def destination(file: Path, agent: str = "hermes") -> Destination:
    loaded = load(file)
    backup = loaded.spec.agents[agent].backup
    assert backup is not None
    return destination_for(backup, loaded.folder, AgentId(loaded.spec.project, agent), print)


def back_up(file: Path, home: Path, texts: Mapping[str, str], made: datetime) -> None:
    """Save a backup of a home with these texts and no others."""
    for path in sorted(home.rglob("*.md")):
        path.unlink()
    for name, text in texts.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(text.encode())
    to = destination(file)
    to.check()
    with Verified(io.BytesIO(sent(home)), TEXTS, lambda count: None) as stream:
        to.save(stream, made)
