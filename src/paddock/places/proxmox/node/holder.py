"""The holder of claims: one run in one place, and the proof on this computer that it is alive."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import socket
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from paddock.base import folders
from paddock.base.computer import state_folder
from paddock.base.errors import is_full, warn_not_written
from paddock.places.proxmox.node.notes import Claim

_RUN: Final = re.compile(r"[0-9a-f]{8}", re.ASCII)
_KEPT_SECONDS: Final = 24 * 3600  # far longer than any claim


class Holder:
    """One run in one place, named host/run in its claims. The name of the host is for people, the run is random.

    From its first claim on, the run holds a lock on a file that has its name. The kernel releases the lock when the
    process ends, however it ends. A run that has no such file here may be a run of another computer.
    """

    def __init__(self) -> None:
        self._run = secrets.token_hex(4)
        host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())
        self.name = f"{host}/{self._run}"
        self._folder = state_folder() / "alive"
        self._lock: int | None = None
        self._opening = threading.Lock()  # runs of several agents share the holder

    def claim(self, now: datetime, lasts: timedelta) -> Claim:
        """Return a claim of this run that begins now."""
        with self._opening:
            if self._lock is None:
                self._lock = self._hold()
        return Claim(self.name, (now + lasts).replace(microsecond=0))

    def close(self) -> None:
        """End this run's claims."""
        with self._opening:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def has_ended(self, name: str) -> bool:
        """Whether the named run was one of this computer, and has ended."""
        run = name.rpartition("/")[2]
        return bool(_RUN.fullmatch(run)) and _is_free(self._folder / run)

    def _hold(self) -> int | None:
        """Lock the file of this run. Without it the run's claims count until they expire, as on other computers."""
        try:
            folders.make_private(self._folder)
            _prune(self._folder)
            return _locked(self._folder / self._run)
        except OSError as error:
            if is_full(error):
                warn_not_written("the sign of life of this run", error)
            return None


def _locked(path: Path) -> int:
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        # Another run may have removed the file as a dead run's before it was locked.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        os.close(file)


def _is_free(path: Path) -> bool:
    """Whether the file exists and no process holds a lock on it."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared, so that two runs may ask at once
    except OSError:
        return False
    finally:
        os.close(file)
    return True


def _prune(folder: Path) -> None:
    """Remove the files of dead runs whose claims have expired: without its file a claim would count again."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _KEPT_SECONDS and _RUN.fullmatch(path.name) and _is_free(path):
                path.unlink()
