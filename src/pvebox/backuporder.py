"""The parameters of a backup job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pvebox.prune import Retention

DEFAULT_STORAGE: Final = "local"


@dataclass(frozen=True)
class JobOrder:
    """The parameters of a backup call, after its checks."""

    node: str
    user: str
    vmids: Sequence[int]
    command_line: str
    storage: str = DEFAULT_STORAGE
    mode: str = "snapshot"
    suffix: str = ".tar"
    # Whether the call asked for all guests. Then those without VM.Backup are left out.
    all: bool = False
    lock_minutes: int = 180
    stop_minutes: int = 10
    ionice: int = 7
    bwlimit: int = 0
    remove: bool = True
    retention: Retention | None = None
    notes_template: str = ""
    protected: bool = False
    exclude: Sequence[str] = ()
    standard_excludes: bool = True
