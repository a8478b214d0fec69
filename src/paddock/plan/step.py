"""Steps, and the plan they make up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import IntEnum, StrEnum

from paddock.frozen import frozen
from paddock.plan.actions import Action


class Risk(StrEnum):
    """What a step may interrupt or remove."""

    SAFE = "safe"
    RESTARTS = "restarts"
    RECREATES = "recreates"
    PERSON = "needs a person"


class Phase(IntEnum):
    """The part of a plan that a step belongs to. A plan runs its phases in this order."""

    MACHINE = 1  # the machine runs and has its state
    SOFTWARE = 2  # packages, images and code are installed
    MANUAL = 3  # steps that may wait for a person; everything that can be done without one comes before
    MOUNTS = 4  # directories of the host are checked
    STATE = 5  # the agent's state is saved, or a restored one takes its place
    AGENT = 6  # the agent is configured, started and verified
    CLEANUP = 7  # leftovers are removed, once the agent works without them
    PROOF = 8  # the agent is verified after the last change


@frozen
class Step:
    """One change, with its reason and its risk."""

    id: str  # names the step in the journal and in timings
    title: str
    reason: str
    action: Action
    risk: Risk = Risk.SAFE
    phase: Phase = Phase.MACHINE
    needs_place_lock: bool = False  # creates a resource that the run of another agent may create too
    commands: Sequence[str] = ()  # the commands for a person, where a step needs one


@frozen
class Refusal:
    """A change that Paddock will not make, and what a person can do about it."""

    reason: str
    hint: str | None = None
    code: str = field(default="", kw_only=True)  # names the refusal in tests, whatever its words are


@frozen
class Plan:
    """All changes to one agent."""

    agent: str
    steps: Sequence[Step] = ()
    refusals: Sequence[Refusal] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    then: Sequence[Step] = ()  # steps of a later plan: this one is refused if they cannot be carried out
    partial: bool = False  # the rest can be planned only after these steps

    @property
    def empty(self) -> bool:
        return not self.steps and not self.refusals
