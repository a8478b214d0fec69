"""The plans of the verbs: each joins the plan of the place with the plan inside the machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Self

from paddock.base.frozen import frozen
from paddock.plan import agent as inside
from paddock.plan import container, namesakes, packages, state, version
from paddock.plan.actions import AwaitAnswer, GoBack, RemoveFormerState, StartAgent, StopAgent
from paddock.plan.agent import AgentSeen, AgentWant
from paddock.plan.step import MachinePlan, Phase, Plan, Refusal, Risk, Step


@frozen
class InsideSeen:
    """The observation inside the machine: the agent, or why it could not be read."""

    agent: AgentSeen | None = None  # None without a running machine
    unreachable: Refusal | None = None  # the machine runs and does not let Paddock in
    stopped: bool = False  # the machine exists and does not run


def up(agent: str, want: AgentWant | Refusal, machine: MachinePlan, seen: InsideSeen) -> Plan:
    """Return the plan that ends with an agent that answers."""
    notes = list(machine.notes)
    if machine.after.new_engine_data and seen.agent:
        notes += container.hidden_by_new_volume(seen.agent.container)
        seen = replace(seen, agent=replace(seen.agent, container=container.NOTHING_YET))
    refusals = [*machine.refusals, *_refusals(agent, want, seen)]
    if refusals or isinstance(want, Refusal):
        return Plan(agent, (), refusals, notes)
    notes += _notes(agent, want, seen)
    known = _known(want, machine, seen)
    if known.unsettled:
        return Plan(agent, _in_phases([*machine.steps, state.settle(agent, known.unsettled)]), (), notes, partial=True)
    if want.container and (start := container.start_step(want.container, known.container)):
        return Plan(agent, _in_phases([*machine.steps, start, *_mounts(want)]), (), notes, partial=True)
    if want.container and (pull := container.pull_step(want.container, known.container)):
        return Plan(agent, _in_phases([*machine.steps, pull]), (), notes, partial=True)
    if want.saves_replaced and seen.agent is None and machine.steps and not machine.after.new_state:
        # Only the machine that mounts the state can tell whether there is something to save.
        notes.append(
            f"the rest is planned when the machine runs: {want.incoming} takes the place of a state that is saved"
        )
        return Plan(agent, _in_phases(machine.steps), (), notes, partial=True)
    steps = [*machine.steps, *inside.up(agent, want, known, adopted_state=machine.after.adopted_state)]
    if steps:
        steps = _in_phases([*steps, *_mounts(want)])
        if not want.foreground and not _proven(steps):
            reason = "its machine restarts" if machine.restarts else "something changed"
            steps.append(inside.answer(agent, reason, Phase.PROOF))
    return Plan(agent, steps, (), notes)


def _proven(steps: Iterable[Step]) -> bool:
    """Return whether the agent is verified after the last change. The removal of its old state changes nothing."""
    *_, last = (step.action for step in steps if not isinstance(step.action, RemoveFormerState))
    return isinstance(last, AwaitAnswer)


def _refusals(agent: str, want: AgentWant | Refusal, seen: InsideSeen) -> Iterator[Refusal]:
    if isinstance(want, Refusal):
        yield want
    elif seen.unreachable:
        # Planning for an unknown inside would announce steps that may not be needed.
        yield seen.unreachable
    elif seen.agent and (refusal := inside.refusal(agent, want, seen.agent)):
        yield refusal


def _notes(agent: str, want: AgentWant, seen: InsideSeen) -> Iterator[str]:
    if seen.agent:
        yield from seen.agent.notes
        if not seen.agent.installed:  # once is enough: nothing comes of it later
            yield from packages.notes(agent, want.optional - seen.agent.packages, seen.agent.installer)
        if seen.agent.kept_aside and want.foreground and not want.incoming:
            where = seen.agent.kept_aside
            yield f"{where} has the state from before a restore; `paddock restore --undo` goes back to it"
        if not seen.agent.goes_back:
            yield from version.notes(agent, want.version, seen.agent.ran, seen.agent.upgrade)
        if want.container:
            yield from container.notes(want.container, seen.agent.container)


def _known(want: AgentWant, machine: MachinePlan, seen: InsideSeen) -> AgentSeen:
    """Return the inside of the machine as it will be after the place's steps."""
    if seen.agent is not None:
        return seen.agent
    return replace(want.preinstalled() if machine.after.preinstalled else AgentSeen(), unread=seen.stopped)


def _mounts(want: AgentWant) -> list[Step]:
    return [inside.check_mounts(want)] if want.mounts else []


def _in_phases(steps: Iterable[Step]) -> list[Step]:
    return sorted(steps, key=lambda step: step.phase)


def back(agent: str, seen: AgentSeen) -> Plan:
    """Return the plan that ends a change that failed: the agent gets its last verified configuration."""
    title = f"give {agent} the configuration again that it had before"
    action = GoBack(seen.before)
    return Plan(agent, [Step("agent.back", title, "it does not work with the new one", action, Risk.RESTARTS)])


def answer(agent: str, reason: str) -> Plan:
    """Return the plan that only waits for the agent and verifies it."""
    return Plan(agent, [inside.answer(agent, reason)])


def down(agent: str, machine: MachinePlan, seen: InsideSeen, *, keeps_machine: bool) -> Plan:
    """Return the plan that destroys the machine, or removes the agent from a machine that Paddock did not create."""
    if not keeps_machine:
        return Plan(agent, machine.steps, machine.refusals, machine.notes, machine.then)
    found = seen.agent or AgentSeen()
    if not found.installed and found.namesakes.former and (refusal := namesakes.not_renamed(agent, found.namesakes)):
        return Plan(agent, refusals=[refusal])
    refusals = [seen.unreachable] if seen.unreachable else []
    return Plan(agent, list(inside.down(agent, found)), refusals)


def forget(agent: str, machine: MachinePlan, seen: InsideSeen, *, keeps_machine: bool) -> Plan:
    """Return the plan that deletes the agent's state. It is refused while the agent is installed."""
    if seen.unreachable:
        return Plan(agent, refusals=[seen.unreachable])
    if seen.agent and seen.agent.installed:
        return Plan(
            agent, refusals=[Refusal(f"{agent} is still installed", "run `paddock down` first", code="agent.installed")]
        )
    if seen.agent and (refusal := namesakes.not_renamed(agent, seen.agent.namesakes)):
        return Plan(agent, refusals=[refusal])
    if seen.agent and (refusal := namesakes.half_forgotten(agent, seen.agent.namesakes)):
        return Plan(agent, refusals=[refusal])
    if seen.agent and seen.agent.state_version:
        return Plan(agent, refusals=[inside.newer(agent, seen.agent)])
    if keeps_machine and seen.agent and seen.agent.planted:
        return Plan(agent, refusals=[inside.planted(agent, seen.agent.planted)])
    if keeps_machine and not (seen.agent and (seen.agent.has_own_state or seen.agent.forgotten)):
        return Plan(agent)
    return machine.of(agent)


def adopt(agent: str, machine: MachinePlan, *, keeps_machine: bool) -> Plan:
    """Return the plan that adopts an existing machine or state."""
    claims = [inside.claim(agent)] if machine.after.adopted_state and keeps_machine else []
    return Plan(agent, [*machine.steps, *claims], machine.refusals, machine.notes)


def back_up(agent: str, machine: MachinePlan, seen: InsideSeen) -> Plan:
    """Return the plan of a backup that the place makes: the agent is stopped meanwhile if it runs."""
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
class BackupParts:
    """The steps of a backup that the place makes. It is confirmed if nothing started the agent while it was made."""

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
