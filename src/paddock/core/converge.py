"""The verbs that change things: resolve, observe, plan and perform; and again if the world changed in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from paddock.base.errors import Refused, WorldChanged
from paddock.core import version
from paddock.core.deployment import Deployment
from paddock.core.files import RootDisk
from paddock.core.lock import PLACE_IN_USE, agent_lock, place_lock
from paddock.core.observe import Observation, observe, observe_inside, reach
from paddock.core.perform import Progress, carry_out
from paddock.core.resolve import NOTHING_MORE, Asked, GatewayUnknown, Located, Resolved, locate, resolve
from paddock.plan import verbs as plans
from paddock.plan.agent import AgentWant
from paddock.plan.step import Goal, MachinePlan, Plan, Refusal

_ATTEMPTS: Final = 4


def up(agent: Deployment, asked: Asked = NOTHING_MORE, *, agreed: Plan | None = None, shared: bool = False) -> str:
    """Bring an agent up; return a line about the result.

    A person may have agreed to a plan. Then another plan is refused. With ``shared``, the run has several agents: one
    observation of their place shows which of them have nothing to do.
    """
    with agent_lock(agent):
        return version.brought_up(agent, partial(_up, asked=asked, agreed=agreed, shared=shared))


def _up(agent: Deployment, *, asked: Asked, agreed: Plan | None, shared: bool) -> str:
    located = locate(agent)
    resolved = resolve_or_refuse(located)
    wanted = resolved if isinstance(resolved, Resolved) else located
    progress = Progress()

    def plan_for(seen: Observation) -> Plan:
        found = plan_up(wanted, want_of(resolved, asked, pulled=progress.pulled), seen)
        if agreed is not None and not progress.began and not found.refusals and found != agreed:
            raise Refused(
                f"{agent.name}: the plan has changed since it was shown; nothing was changed",
                hint="run the same command again and read the new plan",
            )
        return found

    unchanged = _unchanged(wanted, plan_for) if shared else None
    plan, seen = unchanged or converge(wanted, plan_for, progress)
    if wanted.runtime.foreground:
        return f"{agent.name}: ready; `paddock run {agent.name}` runs it"
    if progress.unverified:
        # The last plan was empty: an earlier attempt made the change and was interrupted before the verification.
        carry_out(wanted, plans.answer(agent.name, "something changed"), seen)
        return f"{agent.name}: up and working"
    if not plan.empty:
        return f"{agent.name}: up and working"
    healthy = isinstance(wanted, Resolved) and seen.agent and agent.machine_side.is_healthy(wanted, seen)
    if not healthy:
        # The agent may still be starting: an earlier run may have been interrupted.
        carry_out(wanted, plans.answer(agent.name, "it is not healthy"), seen)
    return f"{agent.name}: nothing to do, and healthy"


def _unchanged(agent: Located, plan_for: Callable[[Observation], Plan]) -> tuple[Plan, Observation] | None:
    """Return the empty plan and its observation, if the observation that the run's agents share shows nothing to do.

    A plan with steps is not carried out from it: another run may have changed the agent since the place was read.
    """
    place = agent.place.observed(agent.machine_want)
    if place is None:
        return None
    seen = observe_inside(agent, place)
    plan = plan_for(seen)
    if not plan.empty or plan.partial:
        return None
    carry_out(agent, plan, seen)  # prints its notes
    return plan, seen


def resolve_or_refuse(agent: Located) -> Resolved | Refusal:
    """Resolve an agent; while its model gateway has no address, return a refusal for the plan."""
    try:
        return resolve(agent)
    except GatewayUnknown as unknown:
        return Refusal(unknown.message, unknown.hint, code="gateway.unknown")


def want_of(resolved: Resolved | Refusal, asked: Asked = NOTHING_MORE, *, pulled: bool = False) -> AgentWant | Refusal:
    """Return what planning compares with the machine."""
    return resolved.want(asked, pulled=pulled) if isinstance(resolved, Resolved) else resolved


def plan_up(agent: Located, want: AgentWant | Refusal, seen: Observation) -> Plan:
    """Plan what `up` changes. Raises ``GoesBack`` if the agent is on its way back to the version before."""
    found = seen.agent
    if found and found.upgrade and found.goes_back and not agent.rollback and not agent.incoming:
        raise version.GoesBack(agent.name, found.upgrade)
    if found and found.went_back and isinstance(want, AgentWant):
        want = replace(want, incoming=None)
    machine = agent.place.plan(Goal.UP, agent.machine_want, seen.place)
    return plans.up(agent.name, want, machine, seen.inside)


def plan(agent: Deployment, asked: Asked = NOTHING_MORE, *, shared: bool = False) -> Plan:
    """Resolve and observe an agent, and plan what `up` would change."""
    try:
        return _plan(agent, asked, shared=shared)
    except version.GoesBack as found:
        return _plan(version.as_before(agent, found.upgrade), shared=shared)


def _plan(agent: Deployment, asked: Asked = NOTHING_MORE, *, shared: bool) -> Plan:
    located = locate(agent)
    want = want_of(resolve_or_refuse(located), asked)
    return plan_up(located, want, observe(located, shared=shared))


def down(agent: Deployment, *, looked: bool = False) -> str:
    """Take an agent down; return a line about the result. ``looked`` skips the check of an adopted root disk."""
    with agent_lock(agent):
        located, disk = locate(agent), RootDisk(looked)
        plan, seen = converge(located, lambda seen: plan_down(located, seen, disk))
    return f"{agent.name}: {'was down' if plan.empty else 'down'}; its state is kept ({seen.machine.state})"


def cycle(agent: Deployment, *, looked: bool = False) -> str:
    """Recreate an agent's machine; return a line about the result.

    Everything that `up` needs for the new machine is checked and built before the old one stops.
    """
    with agent_lock(agent):
        located, disk = locate(agent), RootDisk(looked)
        want = want_of(resolve_or_refuse(located))
        converge(located, lambda seen: _refused_if(want, plan_down(located, seen, disk, Goal.CYCLE)))
    return up(agent)


def _refused_if(want: AgentWant | Refusal, plan: Plan) -> Plan:
    """Return the plan, with a refusal if the agent could not be configured afterwards."""
    return replace(plan, refusals=[*plan.refusals, want]) if isinstance(want, Refusal) else plan


def plan_down(agent: Located, seen: Observation, disk: RootDisk, goal: Goal = Goal.DOWN) -> Plan:
    """Plan the removal of the machine, or of the agent from a machine that Paddock did not create."""
    keeps_machine = agent.place.traits.keeps_machine
    machine = agent.place.plan(goal, agent.machine_want, seen.place)
    if not keeps_machine:
        machine = _with_hidden_machines(agent, machine, seen)
        if machine.steps and seen.machine.adopted:
            remedy = f"stop the agent and move them into {agent.paths.home}"
            found = disk.refusals(agent, f"machine {seen.machine.name}", lambda: reach(agent, seen), remedy)
            machine = replace(machine, refusals=[*machine.refusals, *found])
    return plans.down(agent.name, machine, seen.inside, keeps_machine=keeps_machine)


def _with_hidden_machines(agent: Located, machine: MachinePlan, seen: Observation) -> MachinePlan:
    """Add refusals to a plan that is empty perhaps only because the token cannot see the agent's machine."""
    permissions = agent.place.permissions
    if machine.steps or machine.refusals or permissions is None:
        return machine
    return replace(machine, refusals=permissions.hidden_machines(agent.machine_want, seen.place))


def plan_forget(agent: Deployment) -> tuple[Observation, Plan]:
    """Observe an agent and plan what `forget` would delete, for a person to agree to."""
    located = locate(agent)
    seen = observe(located)
    return seen, _plan_forget(located, seen)


def _plan_forget(agent: Located, seen: Observation) -> Plan:
    keeps_machine = agent.place.traits.keeps_machine
    machine = agent.place.plan(Goal.FORGET, agent.machine_want, seen.place)
    if machine.refusals and not keeps_machine:
        return Plan(agent.name, refusals=machine.refusals)  # the agent inside does not matter yet
    plan = plans.forget(agent.name, machine, seen.inside, keeps_machine=keeps_machine)
    if plan.empty and not keeps_machine:
        return replace(plan, refusals=_with_hidden_machines(agent, machine, seen).refusals)
    return plan


def forget(agent: Deployment, agreed: Plan, shown: Observation) -> str:
    """Delete an agent's state as agreed; return a line about the result.

    A person may take their time to answer, so the agent is observed and planned again, and another plan is refused.
    """
    with agent_lock(agent), place_lock(agent.place, partial(agent.reporter.waiting, PLACE_IN_USE)):
        located = locate(agent)
        seen = observe(located)
        plan = _plan_forget(located, seen)
        if not plan.refusals and (plan, seen.machine.state) != (agreed, shown.machine.state):
            raise Refused(
                f"{agent.name}: the plan has changed since it was shown; nothing was deleted",
                hint="run `paddock forget` again and read the new plan",
            )
        carry_out(located, plan, seen)
    return f"{agent.name}: {'there was nothing to forget' if plan.empty else 'forgotten'}"


def converge(
    agent: Located, plan_for: Callable[[Observation], Plan], progress: Progress | None = None
) -> tuple[Plan, Observation]:
    """Observe, plan and carry out until a plan was carried out completely; return that plan and its observation.

    It starts over when the world changed in between, and when a plan was only the first part.
    """
    progress = progress or Progress()
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with ExitStack() as lock:
                # Until the last resource is created that the run of another agent may create too.
                lock.enter_context(place_lock(agent.place, partial(agent.reporter.waiting, PLACE_IN_USE)))
                with agent.reporter.waiting("looking at its place and its machine"):
                    seen = observe(agent)
                    plan = plan_for(seen)
                carry_out(agent, plan, seen, progress, release_place=lock.close)
            if not plan.partial:
                return plan, seen
            again = "the first part of the plan is done"
        except WorldChanged as change:
            if attempt == _ATTEMPTS:
                raise
            again = change.message.partition("\n")[0]
        agent.reporter.say(f"{again}; observing again")
    raise WorldChanged(
        f"{agent.name}: the plan is still not complete after {_ATTEMPTS} attempts",
        hint="run the same command again; it continues from here",
    )
