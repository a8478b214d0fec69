"""A step: one change, why it is needed, what it risks; and the plan they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Risk(StrEnum):
    """What a step may disturb."""

    SAFE = "safe"
    RESTARTS = "restarts"
    RECREATES = "recreates"
    PERSON = "needs a person"


@dataclass(frozen=True)
class Ref:
    """A value that an earlier step of the same plan will find out."""

    name: str

    def __str__(self) -> str:
        return f"<{self.name}>"


class Action:
    """The data of a step, complete enough to perform it; each room has its own."""


@dataclass(frozen=True)
class InstallContents(Action):
    """Put into a machine what a template should hold. Places ask for it; what it is they do not know."""


@dataclass(frozen=True)
class CheckStateSize(Action):
    """See that the state's filesystem is as large as its volume."""

    size: int


@dataclass(frozen=True)
class CheckMounts(Action):
    """See that the directories of the host are there and the agent's own."""


@dataclass(frozen=True)
class DeleteState(Action):
    """Delete the state directory of a machine that stays."""


@dataclass(frozen=True)
class Step:
    """One change."""

    id: str  # names its phase in the journal and in timings
    title: str
    reason: str
    action: Action
    risk: Risk = Risk.SAFE
    needs_place_lock: bool = False  # makes something that another agent's run may be about to make too
    commands: Sequence[str] = ()  # what a person runs, where a step needs one


@dataclass(frozen=True)
class Refusal:
    """Something Paddock will not do, and what a person can do about it."""

    reason: str
    hint: str | None = None
    code: str = field(default="", kw_only=True)  # names the refusal in tests, whatever its words are


@dataclass(frozen=True)
class Plan:
    """All that would change for one agent."""

    agent: str
    steps: Sequence[Step] = ()
    refusals: Sequence[Refusal] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    then: Sequence[Step] = ()  # what a later plan will do, so that nothing begins that could not be ended

    @property
    def empty(self) -> bool:
        return not self.steps and not self.refusals
