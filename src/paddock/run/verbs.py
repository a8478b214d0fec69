"""The verbs that change things: observe, plan, carry out; and again when the world changed in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paddock.errors import WorldChanged
from paddock.plan.step import Plan
from paddock.run.deployment import Deployment, Observation
from paddock.run.lock import local_lock

_ATTEMPTS: Final = 4


def up(agent: Deployment) -> str:
    """Bring an agent up; returns what to tell about it."""
    with local_lock(agent.name):
        plan, seen = _converge(agent, agent.plan_up)
        if agent.runtime.foreground:
            return f"{agent.name}: ready; `paddock run {agent.name}` runs it"
        if not plan.empty:
            return f"{agent.name}: up and working"
        health = agent.health(seen)
        if health is None or not health.ok:
            # As the file says, but perhaps still starting: a run before this one may have been cut off.
            agent.carry_out(agent.plan_answer(), seen)
        return f"{agent.name}: nothing to do, and healthy"


def down(agent: Deployment) -> str:
    """Take an agent down; returns what to tell about it."""
    with local_lock(agent.name):
        plan, seen = _converge(agent, agent.plan_down)
    return f"{agent.name}: {'was down' if plan.empty else 'down'}; its state stays ({seen.machine.state})"


def cycle(agent: Deployment) -> str:
    """Make an agent's machine anew; returns what to tell about it."""
    down(agent)
    return up(agent)


def _converge(agent: Deployment, plan_for: Callable[[Observation], Plan]) -> tuple[Plan, Observation]:
    """Plan and carry out; where it turns out that the world is another by now, look and plan again."""
    for attempt in range(1, _ATTEMPTS + 1):
        seen = agent.observe()
        plan = plan_for(seen)
        try:
            agent.carry_out(plan, seen)
        except WorldChanged as change:
            if attempt == _ATTEMPTS:
                raise
            agent.story.say(f"{change.message.splitlines()[0]}; looking again")
        else:
            return plan, seen
    raise AssertionError("the last attempt returns or raises")
