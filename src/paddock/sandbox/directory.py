"""A sandbox's own directory, and nobody else's: everything below it is deleted one day."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from .errors import SandboxError

_MARK: Final = ".paddock-sandbox"


def make(state: Path) -> None:
    """Make a directory a sandbox's; one with other things in it is refused."""
    state.mkdir(parents=True, exist_ok=True)
    if not (state / _MARK).exists():
        if any(state.iterdir()):
            raise SandboxError(
                f"{state} has things in it that are not a sandbox's.", hint="Choose an empty directory with --state."
            )
        (state / _MARK).touch()


def is_one(state: Path) -> bool:
    """Whether a sandbox made it; an empty directory is removed on the way, for it may have been about to."""
    if not (state / _MARK).exists():
        with contextlib.suppress(OSError):
            state.rmdir()
        if state.exists():
            raise SandboxError(f"{state} is not a sandbox's directory; it is left as it is.")
        return False
    return True
