"""The plan of a backup that the place makes: the agent is stopped for the moment. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from paddock.base.frozen import frozen
from paddock.plan.actions import StartAgent, StopAgent
from paddock.plan.step import MachinePlan, Phase, Plan, Refusal, Risk, Step
from paddock.plan.verbs import InsideSeen


def save(agent: str, machine: MachinePlan, seen: InsideSeen) -> Plan:
    """Return the plan: the agent is stopped if it runs, and started again."""
    refusals = [*machine.refusals, *([seen.unreachable] if seen.unreachable else [])]
    if not refusals and seen.agent and not seen.agent.has_own_state:
        refusals.append(
            Refusal(f"{agent} has no state on its machine yet", "run `paddock up`", code="archive.unclaimed")
        )
    if refusals:
        return Plan(agent, (), refusals, machine.notes)
    if seen.agent is None or "active" not in seen.agent.units.values():
        return Plan(agent, machine.steps, (), machine.notes)
    reason = "its state must not change while it is backed up"
    stop = Step("agent.stop", f"stop {agent}", reason, StopAgent(), Risk.RESTARTS)
    start = Step("agent.start", f"start {agent} again", "it was running", StartAgent())
    return Plan(agent, [stop, *machine.steps, start], (), machine.notes)


@frozen
class Parts:
    """The steps of a backup. While it is made, nothing may start the agent; it is confirmed if that was so."""

    stop: Sequence[Step]
    make: Sequence[Step]
    confirm: Sequence[Step]
    start: Sequence[Step]

    @classmethod
    def of(cls, plan: Plan) -> Self:
        stop = [step for step in plan.steps if isinstance(step.action, StopAgent)]
        start = [step for step in plan.steps if isinstance(step.action, StartAgent)]
        own = [step for step in plan.steps if step not in (*stop, *start)]
        confirm = [step for step in own if step.phase is Phase.PROOF]
        return cls(stop, [step for step in own if step not in confirm], confirm, start)
