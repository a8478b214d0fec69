"""Commands of files that this account has approved: one small file for each command, named by its hash."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from paddock.base.computer import state_folder, write_private
from paddock.file.commands import Command, commands
from paddock.file.load import Loaded
from paddock.file.secrets.allowed import allow
from paddock.show import journal

FOLDER: Final = "approved"


def unapproved(loaded: Loaded) -> list[Command]:
    """Return the commands that are not approved. If all are, this process may run the commands of the file."""
    found = commands(loaded.spec)
    new = [command for command in found if not _is_own(_folder() / command.id(loaded.folder))]
    if not new:
        allow(command.argv for command in found if command.argv)
    return new


def approve(loaded: Loaded) -> None:
    """Remember that the account approves everything that the file starts, and let this process run it."""
    for command in unapproved(loaded):
        text = f"{command.shown()}\n{json.dumps(str(loaded.folder))}\n"
        write_private(_folder() / command.id(loaded.folder), text.encode())
    allow(command.argv for command in commands(loaded.spec) if command.argv)


def approve_earlier_schedule(loaded: Loaded, files: Sequence[Path], *, installed: bool) -> None:
    """Approve the commands of a schedule that ran before there were approvals, at its first run since.

    It has run the commands of its file every night, so it may go on. From then on it needs approvals as all others do.
    ``installed`` says whether a timer for these files is installed.
    """
    if _is_own(_met(files)):
        return
    if installed or _ran_before(files):
        approve(loaded)
    met(files)


def met(files: Sequence[Path]) -> None:
    """Remember that the schedule of these files has met approvals."""
    write_private(_met(files), "".join(f"{json.dumps(name)}\n" for name in _names(files)).encode())


def _met(files: Sequence[Path]) -> Path:
    return _folder() / f"scheduled-{hashlib.sha256(json.dumps(_names(files)).encode()).hexdigest()}"


def _names(files: Sequence[Path]) -> list[str]:
    return [str(file.absolute()) for file in files]


def _ran_before(files: Sequence[Path]) -> bool:
    """Return whether a journal tells of a scheduled run of these files."""
    runs = (journal.PastRun.from_file(path) for path in journal.folder().glob("*-schedule-run.jsonl"))
    return any(run is not None and list(run.files) == _names(files) for run in runs)


def _folder() -> Path:
    return state_folder() / FOLDER


def _is_own(path: Path) -> bool:
    """Return whether the account itself has written the file: with `sudo`, HOME may be another account's."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
