"""The plan of a place: the machine and the volumes of one agent."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from paddock.frozen import frozen
from paddock.plan.step import Refusal, Risk, Step


class Goal(StrEnum):
    """What a place is asked to plan."""

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
    """What the agent's part of the plan has to know about the machine after the place's steps."""

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
