"""A place in memory: the smallest complete one. Its machines are entries of a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from paddock.channels import Guest
from paddock.channels.local import LocalGuest
from paddock.places.contract import Finding, Got, Machine, MachineWant, PlaceSeen, Remnant, Traits
from paddock.plan.actions import PlaceAction
from paddock.plan.step import Goal, MachinePlan, Refusal, Risk, Step


@dataclass(frozen=True)
class MemorySeen(PlaceSeen):
    """The machines and states at one moment."""

    machines: dict[str, bool]  # by agent: whether the machine runs
    states: frozenset[str]  # agents that have a state


@dataclass(frozen=True)
class CreateState(PlaceAction):
    agent: str


@dataclass(frozen=True)
class CreateMachine(PlaceAction):
    agent: str


@dataclass(frozen=True)
class StartMachine(PlaceAction):
    agent: str


@dataclass(frozen=True)
class DestroyMachine(PlaceAction):
    agent: str


@dataclass(frozen=True)
class DeleteMemory(PlaceAction):
    agent: str


MemoryAction = CreateState | CreateMachine | StartMachine | DestroyMachine | DeleteMemory


@dataclass
class MemoryPlace:
    """Machines and states of agents. ``interrupt`` is called before and after each change."""

    machines: dict[str, bool] = field(default_factory=dict)
    states: dict[str, Path] = field(default_factory=dict)
    interrupt: Callable[[], None] = lambda: None
    traits = Traits("memory", mounts_state=True, keeps_machine=False)
    templates = adoption = archives = doctor = permissions = None

    def close(self) -> None: ...

    def account_home(self) -> None:
        return None

    def login_keys(self) -> Sequence[str]:
        return ()

    def observe(self, agent: str | None = None) -> MemorySeen:
        return MemorySeen(dict(self.machines), frozenset(self.states))

    def observed(self, agent: str | None = None) -> MemorySeen:
        return self.observe()

    def plan(self, goal: Goal, want: MachineWant, seen: MemorySeen) -> MachinePlan:
        agent = want.agent
        there, runs, state = agent in seen.machines, seen.machines.get(agent, False), agent in seen.states
        destroy = Step("machine.destroy", "destroy", "it exists", DestroyMachine(agent), Risk.RECREATES)
        create = [
            *([] if state else [Step("state.create", "create the state", "there is none", CreateState(agent))]),
            *([] if there else [Step("machine.create", "create", "there is none", CreateMachine(agent))]),
            *([] if runs else [Step("machine.start", "start", "it is stopped", StartMachine(agent))]),
        ]
        match goal:
            case Goal.UP:
                return MachinePlan(create)
            case Goal.DOWN | Goal.CYCLE:
                return MachinePlan([destroy] if there else [])
            case Goal.FORGET if there:
                return MachinePlan(refusals=[Refusal("the machine exists", "run `paddock down`", code="memory.up")])
            case Goal.FORGET:
                step = Step("state.delete", "delete the state", "asked for", DeleteMemory(agent), Risk.RECREATES)
                return MachinePlan([step] if state else [])
            case _:
                assert_never(goal)

    def perform(self, action: MemoryAction, seen: MemorySeen, got: Got) -> Got:
        self.interrupt()
        match action:
            case CreateState(agent):
                self.states.setdefault(agent, Path(f"/states/{agent}"))
            case CreateMachine(agent):
                self.machines[agent] = False
            case StartMachine(agent):
                self.machines[agent] = True
            case DestroyMachine(agent):
                del self.machines[agent]
            case DeleteMemory(agent):
                del self.states[agent]
            case _:
                assert_never(action)
        self.interrupt()
        return {}

    def guest(self, want: MachineWant, seen: MemorySeen, got: Got) -> Guest | None:
        return LocalGuest(f"machine-of-{want.agent}") if self.machines.get(want.agent) else None

    def machine(self, want: MachineWant, seen: MemorySeen) -> Machine:
        status = {None: "absent", False: "stopped", True: "running"}[seen.machines.get(want.agent)]
        state = str(self.states.get(want.agent, "none"))
        return Machine(want.agent, status, "memory" if status == "running" else None, state)

    def other_run(self, want: MachineWant, seen: MemorySeen) -> None:
        return None

    def remnants(self, project: str, agents: Collection[str], seen: MemorySeen) -> Sequence[Remnant]:
        return []

    def verify(self, want: MachineWant, seen: MemorySeen) -> Sequence[Finding]:
        return [Finding("machine", want.agent in seen.machines, "in memory")]
