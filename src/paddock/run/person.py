"""Commands that only a person can run."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.plan.machine import Goal
from paddock.run.deployment import Deployment
from paddock.run.observe import observe
from paddock.run.resolve import locate
from paddock.visible import one_line


def script(agent: Deployment) -> Iterator[str]:
    """Yield the commands that a person has to run for `up`, with reasons as shell comments."""
    located = locate(agent)
    seen = observe(located, shared=True)
    plan = agent.place.plan(Goal.UP, located.machine_want, seen.place)
    steps = [step for step in plan.steps if step.commands]
    for refusal in plan.refusals:
        # Further lines of a comment would be commands.
        yield one_line(f"# {agent.name}: refused: {refusal.reason}")
    if not steps and not plan.refusals:
        yield f"# {agent.name}: nothing for root to do"
    for step in steps:
        yield one_line(f"# {agent.name}: {step.title} ({step.reason})")
        if seen.machine.status == "absent":
            yield "# its machine does not exist yet: `paddock up` creates it and waits for these commands"
        yield from step.commands
