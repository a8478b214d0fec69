"""The top folder of a state, and Paddock's own folder `.paddock` in it, which says whose state it is.

The agent may have been able to write to the top folder before Paddock claimed the state.
"""

from __future__ import annotations

import os
import stat
import uuid

from paddock.onboard.agent import in_words
from paddock.onboard.files import FOLDER, entry, is_folder, lines, make_folder, opened, text, write
from paddock.onboard.program.programs import is_root
from paddock.onboard.program.refusal import Refusal


def own(state: str) -> str:
    return f"{state}/.paddock"


def is_own(folder: str) -> bool:
    """Whether a folder is the account's that runs this, and nobody else can enter it: no agent made it."""
    found = entry(folder)
    if found is None or not is_folder(found):
        return False
    return found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700


def is_state(state: str) -> bool:
    """Whether there is a state of an agent."""
    return is_own(own(state)) and os.path.exists(f"{own(state)}/identity")


def _identity(state: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in lines(f"{own(state)}/identity"))


def identity_of(state: str) -> str:
    """Return the id of the agent whose state this is."""
    return _identity(state).get("agent", "")


def newer_version(state: str) -> str:
    """Return the version of the record, if a newer Paddock wrote it. Version 1, of Paddock 0.1, has no line for it."""
    version = _identity(state).get("version", "1")
    return "" if version in ("1", "2") else version


def expect_identity(state: str, agent: str) -> None:
    """Accept only a state of this agent."""
    if newer_version(state):
        raise Refusal(f"a newer Paddock wrote {own(state)}/identity; use that version of Paddock or a newer one")
    if identity_of(state) != agent:
        raise Refusal(f"{state} is the state of another agent: {in_words(identity_of(state))}")


def write_identity(state: str, agent: str) -> None:
    """Make a state an agent's. A state that was another's keeps its own id."""
    make_folder(own(state), 0o700)
    known = _identity(state).get("id") or uuid.uuid4()
    write(f"{own(state)}/identity", f"version=2\nagent={agent}\nid={known}\n")


def holder(state: str) -> str:
    """Return who holds the state."""
    return text(f"{own(state)}/holder").strip()


def expect_path_of_root(state: str) -> None:
    """Refuse a path on which a user can replace a folder: root could be led elsewhere.

    A folder that everyone can write to is accepted if it is sticky and root owns the next entry of the path.
    """
    if not is_root():
        return
    real = f"{os.path.realpath(os.path.dirname(state))}/{os.path.basename(state)}"
    for path in (state, real):
        below, above = path, os.path.dirname(path)
        while above != "/":
            _expect_root(state, above, below)
            below, above = above, os.path.dirname(above)


def _expect_root(state: str, folder: str, below: str) -> None:
    try:
        found = os.stat(folder)
    except OSError:
        return
    if not keeps_others_out(found):
        replaced = below if may_only_add(found) else folder
        if replaced == below and (not os.path.exists(below) or os.stat(below).st_uid == 0):
            return
        raise Refusal(
            f"users other than root can write to {replaced} and could replace the state ({state}); keep the state below"
            f" a directory that only root can write to, or: chown root:root {replaced} && chmod go-w {replaced}"
        )


def keeps_others_out(found: os.stat_result) -> bool:
    """Whether only root can create, rename or remove entries of a folder."""
    return found.st_uid == 0 and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022


def may_only_add(found: os.stat_result) -> bool:
    """Whether others can create entries of a folder of root's, and cannot replace those of others."""
    return found.st_uid == 0 and stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX)


def take_top(state: str) -> None:
    """Make the top folder root's: from then on only root creates, moves or replaces its entries."""
    if is_root():
        os.chown(state, 0, -1, follow_symlinks=False)
    try:
        with opened(state, FOLDER) as top:
            os.fchmod(top, stat.S_IMODE(os.fstat(top).st_mode) & ~0o022)
    except OSError:
        raise Refusal(f"{state} is not a directory") from None
