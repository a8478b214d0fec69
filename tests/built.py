"""Build once what many tests need: for all workers, and for the runs after this one."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

# Read once: a test may have a home and a cache of its own. `./test --clean` removes this folder.
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paddock-tests"


def built(name: str, inputs: str, build: Callable[[Path], object]) -> Path:
    """Return a folder that ``build`` has filled, now or in an earlier run with the same inputs.

    The folder is shared: a test that changes files of it has to copy them first. ``inputs`` names everything that the
    contents depend on.
    """
    CACHE.mkdir(mode=0o711, parents=True, exist_ok=True)  # root in a container may enter, and read no names
    folder = CACHE / f"{name}-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}"
    if folder.exists():
        os.utime(folder)  # it is in use
        return folder
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker, or another run, may build it now
        if not folder.exists():
            new = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=CACHE))
            try:
                build(new)
                new.rename(folder)
            except BaseException:
                shutil.rmtree(new, ignore_errors=True)
                raise
            _remove_unused(name)
    return folder


def _remove_unused(name: str) -> None:
    """Remove what was built from other inputs. A run that still uses it has begun within a day."""
    for old in CACHE.glob(f"{name}-{'[0-9a-f]' * 16}"):
        if old.stat().st_mtime < time.time() - 24 * 3600:
            shutil.rmtree(old)
