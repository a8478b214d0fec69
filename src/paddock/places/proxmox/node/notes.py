"""Paddock's lines in the notes of a container: its mark, the claim of a run, and that it ran before."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Self

from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId

_MARK: Final = re.compile(r"^paddock: (.*)$", re.MULTILINE)
_VERSION: Final = "2"
_READ: Final = frozenset({"1", _VERSION})  # in version 1 agents had no project
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


class Role(StrEnum):
    PET = "pet"  # owns state volumes; the mount path of each names its agent
    CATTLE = "cattle"  # an agent's machine
    TEMPLATE = "template"  # what machines are cloned from
    BUILDER = "builder"  # becomes a template when its build is finished
    SPARE = "spare"  # a restored archive of a pet, while it is read
    READER = "reader"  # a throwaway machine that reads a spare


@frozen
class Mark:
    """The purpose of a container. Values contain no spaces and no secrets."""

    role: Role
    agent: AgentId | None = None  # cattle: whose machine; spare, reader: whose backup
    made_from: str | None = None  # cattle: the template or base archive that it was created from
    template: str | None = None  # template, builder: hash of its inputs
    epoch: int | None = None  # template, builder: counts the builds of the same inputs
    label: str | None = None  # template, builder: a name for people
    made: str | None = None  # template: time of the build
    by: str | None = None  # version of the Paddock that created it
    adopted: str | None = None  # pet: ids of agents whose volumes were adopted, separated by commas
    forgetting: str | None = None  # pet: the volume that is being deleted, with the id of its agent: id/storage:name
    new: str | None = None  # pet, cattle: the run that is creating it; until it is settled, nothing may use it
    maker: str | None = None  # pet, cattle: the run that created it
    macs: str | None = None  # pet: how the MACs of its agents' machines are made; see network.py
    host_key: str | None = None  # base64 part of its ed25519 ssh host key; two keys during an exchange

    @classmethod
    def from_notes(cls, notes: str) -> Self | None:
        """Return the mark in a container's notes; None unless there is exactly one and it is readable."""
        lines = _MARK.findall(notes)
        if len(lines) != 1:
            return None
        pairs = [word.partition("=") for word in lines[0].split()]
        values = {name.replace("-", "_"): value for name, _, value in pairs}
        if len(values) != len(pairs) or values.pop("v", None) not in _READ:
            return None
        known = {field.name for field in fields(cls)}
        try:
            role, epoch, agent = Role(values.pop("role")), values.pop("epoch", None), values.pop("agent", None)
            number = int(epoch) if epoch is not None else None
            whose = AgentId.parse(agent) if agent else None
            return cls(role, whose, epoch=number, **{name: value for name, value in values.items() if name in known})
        except (KeyError, ValueError):
            return None

    @property
    def host_keys(self) -> tuple[str, ...]:
        """The host keys that the machine may present; the last one is permanent."""
        return tuple(self.host_key.split(",")) if self.host_key else ()

    @property
    def adopted_agents(self) -> frozenset[AgentId]:
        """The agents whose volumes held files before they were adopted."""
        return frozenset(AgentId.parse(each) for each in self.adopted.split(",")) if self.adopted else frozenset()

    @property
    def settled(self) -> Mark:
        """The mark once the container is the agent's own."""
        return replace(self, new=None, maker=self.new or self.maker)

    @property
    def unfinished_forget(self) -> tuple[AgentId, str] | None:
        """The agent and the volume of a `forget` that is not finished."""
        agent, _, volume = (self.forgetting or "").partition("/")
        return (AgentId.parse(agent), volume) if agent and volume else None

    def renamed(self, former: AgentId, agent: AgentId) -> Self:
        """Return the mark with another id of an agent in place of the former one."""
        adopted = sorted({agent if each == former else each for each in self.adopted_agents})
        return replace(
            self,
            agent=agent if self.agent == former else self.agent,
            adopted=",".join(map(str, adopted)) or None,
        )

    def __str__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        words = [f"{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None]
        return f"paddock: v={_VERSION} " + " ".join(words)

    @staticmethod
    def readable(notes: str) -> bool:
        """Whether the notes have a readable mark, or none at all."""
        return not _MARK.search(notes) or Mark.from_notes(notes) is not None

    @staticmethod
    def of_newer_version(notes: str) -> Mapping[str, str] | None:
        """Return the words of a mark that a newer Paddock wrote; only that Paddock knows their meaning."""
        for line in _MARK.findall(notes):
            words = {name: value for name, _, value in (word.partition("=") for word in line.split())}
            version = words.get("v", "")
            if _NUMBER.fullmatch(version) and int(version) > int(_VERSION):
                return words
        return None

    @staticmethod
    def text_above(notes: str) -> str:
        """Return the text above the mark."""
        return _MARK.split(notes, maxsplit=1)[0].strip()

    def written_below(self, text: str, notes: str) -> str:
        """Return the notes with another text above the mark; the text below is kept."""
        below = _MARK.split(notes, maxsplit=1)[2:]
        return "\n".join(filter(None, (f"{text.strip()}\n\n{self}".strip(), *(each.strip("\n") for each in below))))

    def written_into(self, notes: str) -> str:
        """Return the notes with this mark in place of the old one; other lines are kept."""
        if _MARK.search(notes):
            return _MARK.sub(lambda _: str(self), notes).strip("\n")
        return f"{notes.strip()}\n\n{self}".strip("\n")


AGAIN: Final = "wait until it is done, and run the same command again"
_CLAIM: Final = re.compile(r"^paddock-claim: (\S+) until (\S+)$\n?", re.MULTILINE)


@frozen
class Claim:
    """The run that works on a container, and until when. A claim expires, because its run may die.

    The locks of one computer do not suffice: they use names and addresses, and a node may have several of both.
    """

    holder: str
    until: datetime

    @classmethod
    def from_notes(cls, notes: str) -> Self | None:
        """Return the claim in a container's notes, or None without a readable one."""
        match = _CLAIM.search(notes)
        if match is None:
            return None
        try:
            until = datetime.fromisoformat(match[2])
        except ValueError:
            return None
        return cls(match[1], until if until.tzinfo else until.replace(tzinfo=UTC))

    def written_into(self, notes: str) -> str:
        """Return the notes with this claim and no other."""
        return f"{without_claim(notes)}\npaddock-claim: {self.holder} until {self.until.isoformat()}"

    def blocks(self, holder: str, now: datetime, has_ended: Callable[[str], bool]) -> bool:
        """Whether the claim excludes another run at that moment."""
        return self.holder != holder and now < self.until and not has_ended(self.holder)

    def over(self, container: str) -> str:
        """Return the sentence for a run that has to leave this container alone."""
        return f"{self.holder} is at work on {container} until {self.until:%H:%M:%S} UTC"


def without_claim(notes: str) -> str:
    """Return the notes without any claim."""
    return _CLAIM.sub("", notes).strip()


_RESTART: Final = re.compile(r"\n?^paddock-restart: [^\n]*$", re.MULTILINE)
_NOTE: Final = "paddock-restart: it ran before `paddock adopt` stopped it"


def has_restart_note(notes: str) -> bool:
    """Whether `adopt` stopped the container and has to start it again."""
    return _RESTART.search(notes) is not None


def with_restart_note(notes: str) -> str:
    """Return the notes with the line that `adopt` stopped a running container, at the end."""
    return f"{without_restart_note(notes)}\n{_NOTE}".strip("\n")


def without_restart_note(notes: str) -> str:
    """Return the notes without that line."""
    return _RESTART.sub("", notes).strip("\n")
