"""Steps, their phases and risks, the goals of a machine, and a plan as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import IntEnum, StrEnum
from typing import Any, Final

from paddock.base.frozen import frozen
from paddock.base.text import one_line
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


class Goal(StrEnum):
    """The goal of a place's plan."""

    UP = "up"  # a running machine with its state
    DOWN = "down"  # no machine; the state is kept
    CYCLE = "cycle"  # as down, and refused if no machine could be created afterwards
    FORGET = "forget"  # no state; refused while a machine could use it


@frozen
class AdoptTarget:
    """The existing machine or volume that a person wants to adopt."""

    machine: int | None = None  # the number of a machine
    state: str | None = None  # a volume: the key it has on that machine, or its own name


@frozen
class MachineAfter:
    """The machine after the place's steps, for the agent's part of the plan."""

    preinstalled: bool = False  # a new machine holds the contents of its template
    adopted_state: bool = False  # the state existed before Paddock, and may hold files that are still to be claimed
    new_state: bool = False  # the state is created empty, so there is nothing to save before a restore
    new_engine_data: bool = False  # the container engine gets an empty data volume


@frozen
class MachinePlan:
    """The steps of a place for one agent."""

    steps: Sequence[Step] = ()
    refusals: Sequence[Refusal] = ()
    notes: Sequence[str] = ()
    then: Sequence[Step] = ()  # steps of a later plan, for ``Goal.CYCLE``
    after: MachineAfter = MachineAfter()

    @property
    def restarts(self) -> bool:
        """Whether a running machine is stopped on the way."""
        return any(step.risk in (Risk.RESTARTS, Risk.PERSON) for step in self.steps)

    def of(self, agent: str) -> Plan:
        """Return the plan of an agent that has these steps only."""
        return Plan(agent, self.steps, self.refusals, self.notes)


_SIGNS: Final = {Risk.SAFE: "+", Risk.RESTARTS: "~", Risk.RECREATES: "-", Risk.PERSON: "?"}


def as_text(plan: Plan, usual: Mapping[str, float]) -> str:
    """Return the plan as text: for each step a sign, its title, its reason and its usual duration."""
    if plan.empty:
        lines = [f"{plan.agent}: nothing to do"]
    else:
        lines = [f"{plan.agent}:"]
        width = max((len(step.title) for step in plan.steps), default=0)
        for step in plan.steps:
            takes = f", about {usual[step.id]:.0f} s" if usual.get(step.id, 0) >= 0.5 else ""
            lines.append(one_line(f"  {_SIGNS[step.risk]} {step.title:<{width}}  ({step.reason}{takes})"))
            lines += [f"      {command}" for command in step.commands]
        for refusal in plan.refusals:
            lines.append(_deeper(f"  ! refused: {refusal.reason}"))
            if refusal.hint:
                lines += [f"    {line}" for line in refusal.hint.split("\n")]
    return "\n".join([*lines, *(one_line(f"  . {note}") for note in plan.notes)])


def _deeper(text: str) -> str:
    """Indent further lines more than the first, so that none looks like a step or a note."""
    return text.replace("\n", "\n        ")


def as_data(plan: Plan, usual: Mapping[str, float]) -> dict[str, Any]:
    """Return the plan as data for JSON."""
    return {
        "agent": plan.agent,
        "steps": [
            {
                "id": step.id,
                "title": step.title,
                "reason": step.reason,
                "risk": step.risk.value,
                "usual_seconds": usual.get(step.id),
                "commands": list(step.commands),
            }
            for step in plan.steps
        ],
        "refusals": [{"reason": refusal.reason, "hint": refusal.hint} for refusal in plan.refusals],
        "notes": list(plan.notes),
    }
