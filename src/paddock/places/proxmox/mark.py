"""The mark: one line in a container's notes that says it is ours, and whose it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

_LINE: Final = re.compile(r"^paddock: (.*)$", re.MULTILINE)
_VERSION: Final = "1"


class Role(StrEnum):
    PET = "pet"
    CATTLE = "cattle"


@dataclass(frozen=True)
class Mark:
    """Whose container this is, in which role; for cattle also what it was made from and its ssh host key."""

    agent: str
    role: Role
    base: str | None = None
    host_key: str | None = None  # the base64 part of an ed25519 key

    @classmethod
    def from_notes(cls, notes: str) -> Self | None:
        """Return the mark in a container's notes; whatever cannot be read as one is none."""
        lines = _LINE.findall(notes)
        if len(lines) != 1:
            return None
        pairs = [word.partition("=") for word in lines[0].split()]
        values = {name: value for name, _, value in pairs}
        if len(values) != len(pairs) or values.pop("v", None) != _VERSION:
            return None
        try:
            return cls(
                agent=values["agent"],
                role=Role(values["role"]),
                base=values.get("base"),
                host_key=values.get("host-key"),
            )
        except (KeyError, ValueError):
            return None

    def __str__(self) -> str:
        values = {"agent": self.agent, "role": self.role, "base": self.base, "host-key": self.host_key}
        return f"paddock: v={_VERSION} " + " ".join(f"{name}={value}" for name, value in values.items() if value)

    def written_into(self, notes: str) -> str:
        """Return the notes with this mark in place of the old one; people's own lines stay."""
        if _LINE.search(notes):
            return _LINE.sub(lambda _: str(self), notes).strip("\n")
        return f"{notes.strip()}\n\n{self}".strip("\n")
