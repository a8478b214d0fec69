"""A line in the notes of a container that an adoption shuts down: it ran, and is to be started again.

A run may be interrupted while the container is stopped. The next one could not tell that it ran before.
"""

from __future__ import annotations

import re
from typing import Final

_LINE: Final = re.compile(r"\n?^paddock-restart: [^\n]*$", re.MULTILINE)
_NOTE: Final = "paddock-restart: it ran before `paddock adopt` stopped it"


def is_in(notes: str) -> bool:
    """Whether the container is to be started again."""
    return _LINE.search(notes) is not None


def written_into(notes: str) -> str:
    """Return the notes with the line, at the end."""
    return f"{removed_from(notes)}\n{_NOTE}".strip("\n")


def removed_from(notes: str) -> str:
    """Return the notes without the line."""
    return _LINE.sub("", notes).strip("\n")
