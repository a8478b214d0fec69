"""The folder on this machine for journals, locks and signs of life of runs."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """Return Paddock's folder for local state, which may not exist yet."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local/state") / "paddock"
