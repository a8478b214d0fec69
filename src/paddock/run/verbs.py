"""The verbs that change things: observe, plan, carry out, and one sentence about the end."""

from __future__ import annotations

from paddock.run.deployment import Deployment


def up(agent: Deployment) -> str:
    """Bring an agent up; returns what to tell about it."""
    seen = agent.observe()
    plan = agent.plan_up(seen)
    agent.carry_out(plan, seen)
    if agent.runtime.foreground:
        return f"{agent.name}: ready; `paddock run {agent.name}` runs it"
    if not plan.empty:
        return f"{agent.name}: up, and answered a prompt"
    health = agent.health(seen)
    if health is None or not health.ok:
        # As the file says, but perhaps still starting: a run before this one may have been cut off.
        agent.carry_out(agent.plan_answer(), seen)
    return f"{agent.name}: nothing to do, and healthy"


def down(agent: Deployment) -> str:
    """Take an agent down; returns what to tell about it."""
    seen = agent.observe()
    plan = agent.plan_down(seen)
    agent.carry_out(plan, seen)
    return f"{agent.name}: {'was down' if plan.empty else 'down'}; its state stays ({seen.machine.state})"
