"""The verbs that change things: observe, plan, carry out; and again when the world changed in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from paddock.errors import Refused, WorldChanged
from paddock.plan.step import Plan
from paddock.run.deployment import Deployment, Observation
from paddock.run.lock import agent_lock, place_lock
from paddock.run.verify import verify

_ATTEMPTS: Final = 4


def up(agent: Deployment) -> str:
    """Bring an agent up; returns what to tell about it."""
    with agent_lock(agent):
        plan, seen = converge(agent, agent.plan_up)
        if agent.runtime.foreground:
            return f"{agent.name}: ready; `paddock run {agent.name}` runs it"
        if agent.unverified:
            # The last plan was empty: an attempt before it made the change, and was cut off before the proof.
            agent.carry_out(agent.plan_answer("something changed"), seen)
            return f"{agent.name}: up and working"
        if not plan.empty:
            return f"{agent.name}: up and working"
        if seen.agent is None or not verify(agent, seen, quick=True).ok:
            # As the file says, but perhaps still starting: a run before this one may have been cut off.
            agent.carry_out(agent.plan_answer("it is not healthy"), seen)
        return f"{agent.name}: nothing to do, and healthy"


def down(agent: Deployment) -> str:
    """Take an agent down; returns what to tell about it."""
    with agent_lock(agent):
        plan, seen = converge(agent, agent.plan_down)
    return f"{agent.name}: {'was down' if plan.empty else 'down'}; its state stays ({seen.machine.state})"


def plan_forget(agent: Deployment) -> tuple[Observation, Plan]:
    """What forgetting an agent would delete, for a person to agree to."""
    seen = agent.observe()
    return seen, agent.plan_forget(seen)


def forget(agent: Deployment, agreed: Plan, shown: Observation) -> str:
    """Delete an agent's state as agreed; returns what to tell about it.

    A person may take their time to answer, so it is observed and planned again: only what was shown is deleted.
    """
    with agent_lock(agent), place_lock(agent.place):
        seen, plan = plan_forget(agent)
        if not plan.refusals and (plan, seen.machine.state) != (agreed, shown.machine.state):
            raise Refused(
                f"{agent.name}: what would be deleted by now is not what was shown; nothing was deleted",
                hint="run `paddock forget` again, and read what it would delete",
            )
        agent.carry_out(plan, seen)
    return f"{agent.name}: {'there was nothing to forget' if plan.empty else 'forgotten'}"


def cycle(agent: Deployment) -> str:
    """Make an agent's machine anew; returns what to tell about it."""
    with agent_lock(agent):
        converge(agent, agent.plan_cycle)
    return up(agent)


def converge(agent: Deployment, plan_for: Callable[[Observation], Plan]) -> tuple[Plan, Observation]:
    """Plan and carry out; where it turns out that the world is another by now, look and plan again."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with ExitStack() as turn:
                # From looking until the last thing is made that another agent's run may be about to make too.
                turn.enter_context(place_lock(agent.place))
                seen = agent.observe()
                plan = plan_for(seen)
                agent.carry_out(plan, seen, shared_done=turn.close)
        except WorldChanged as change:
            if attempt == _ATTEMPTS:
                raise
            agent.reporter.say(change.message.partition("\n")[0] + "; looking again")
        else:
            return plan, seen
    raise AssertionError("the last attempt returns or raises")
