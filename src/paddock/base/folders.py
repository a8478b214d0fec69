"""The base folders of the account that runs Paddock, as the XDG specification defines them."""

from __future__ import annotations

import os
from pathlib import Path


def config() -> Path:
    """Return the folder of configuration, such as ``~/.config``."""
    return _base("XDG_CONFIG_HOME", ".config")


def cache() -> Path:
    """Return the folder of files that only save time, such as ``~/.cache``."""
    return _base("XDG_CACHE_HOME", ".cache")


def data() -> Path:
    """Return the folder of lasting data, such as ``~/.local/share``."""
    return _base("XDG_DATA_HOME", ".local/share")


def state() -> Path:
    """Return the folder of journals and locks, such as ``~/.local/state``."""
    return _base("XDG_STATE_HOME", ".local/state")


def _base(variable: str, in_home: str) -> Path:
    path = Path(os.environ.get(variable, ""))
    # The specification: paths in these variables must be absolute; a relative path is invalid and is ignored.
    return path if path.is_absolute() else Path.home() / in_home


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, all for their owner only, as the specification asks."""
    # `mkdir(parents=True)` gives its mode only to the last folder.
    for each in (*reversed(folder.parents), folder):
        each.mkdir(mode=0o700, exist_ok=True)
