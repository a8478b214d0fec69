"""The mark: one line in a container's notes that says it is ours, and what for."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final, Self

_LINE: Final = re.compile(r"^paddock: (.*)$", re.MULTILINE)
_VERSION: Final = "1"


class Role(StrEnum):
    PET = "pet"  # owns state volumes; each is an agent's by the path it is mounted at
    CATTLE = "cattle"  # an agent's machine
    TEMPLATE = "template"  # what machines are cloned from
    BUILDER = "builder"  # a template in the making


@dataclass(frozen=True)
class Mark:
    """What a container is for. Values have no spaces in them, and none is a secret."""

    role: Role
    agent: str | None = None  # cattle: whose machine
    made_from: str | None = None  # cattle: what it would have to be made from to be as good as new
    template: str | None = None  # template, builder: hash of its inputs
    epoch: int | None = None  # template, builder: which making of the same inputs
    label: str | None = None  # template, builder: a word for people
    made: str | None = None  # template: when
    by: str | None = None  # version of the Paddock that made it
    adopted: str | None = None  # pet: agents whose volumes held files before Paddock knew them, with commas
    forgetting: str | None = None  # pet: a volume that is being deleted, and whose it was: agent/storage:name
    host_key: str | None = None  # the base64 part of its ed25519 ssh host key; two while it is being exchanged

    @classmethod
    def from_notes(cls, notes: str) -> Self | None:
        """Return the mark in a container's notes; whatever cannot be read as one is none."""
        lines = _LINE.findall(notes)
        if len(lines) != 1:
            return None
        pairs = [word.partition("=") for word in lines[0].split()]
        values = {name.replace("-", "_"): value for name, _, value in pairs}
        if len(values) != len(pairs) or values.pop("v", None) != _VERSION:
            return None
        known = {field.name for field in fields(cls)}
        try:
            role, epoch = Role(values.pop("role")), values.pop("epoch", None)
            number = int(epoch) if epoch is not None else None
            return cls(role, epoch=number, **{name: value for name, value in values.items() if name in known})
        except (KeyError, ValueError):
            return None

    @property
    def host_keys(self) -> tuple[str, ...]:
        """The keys that the machine may answer with; the last one is to stay."""
        return tuple(self.host_key.split(",")) if self.host_key else ()

    @property
    def adopted_agents(self) -> frozenset[str]:
        """The agents whose volumes held files before Paddock knew them."""
        return frozenset(self.adopted.split(",")) if self.adopted else frozenset()

    @property
    def unfinished_forget(self) -> tuple[str, str] | None:
        """The agent whose volume is being deleted, and the volume."""
        agent, _, volume = (self.forgetting or "").partition("/")
        return (agent, volume) if agent and volume else None

    def __str__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        words = [f"{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None]
        return f"paddock: v={_VERSION} " + " ".join(words)

    @staticmethod
    def readable(notes: str) -> bool:
        """Whether notes that seem to have a mark have one that can be read."""
        return not _LINE.search(notes) or Mark.from_notes(notes) is not None

    @staticmethod
    def text_above(notes: str) -> str:
        """What a person's notes say above the mark."""
        return _LINE.split(notes, maxsplit=1)[0].strip()

    def written_below(self, text: str, notes: str) -> str:
        """Return the notes with another text above the mark; what is below it stays."""
        below = _LINE.split(notes, maxsplit=1)[2:]
        return "\n".join(filter(None, (f"{text.strip()}\n\n{self}".strip(), *(each.strip("\n") for each in below))))

    def written_into(self, notes: str) -> str:
        """Return the notes with this mark in place of the old one; people's own lines stay."""
        if _LINE.search(notes):
            return _LINE.sub(lambda _: str(self), notes).strip("\n")
        return f"{notes.strip()}\n\n{self}".strip("\n")
