"""What is left for a person to do."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.run.deployment import Deployment
from paddock.visible import one_line


def script(agent: Deployment) -> Iterator[str]:
    """The commands a person has to run before the agent can be up, with the reasons as comments of a shell."""
    seen = agent.observe()
    plan = agent.place.up(agent.machine_want, seen.place)
    steps = [step for step in (*plan.steps, *plan.manual_steps) if step.commands]
    for refusal in plan.refusals:
        # A comment of several lines would be commands.
        yield one_line(f"# {agent.name}: refused: {refusal.reason}")
    if not steps and not plan.refusals:
        yield f"# {agent.name}: nothing for root to do"
    for step in steps:
        yield one_line(f"# {agent.name}: {step.title} ({step.reason})")
        if seen.machine.status == "absent":
            yield "# its machine is not there yet: `paddock up` makes it and waits for this"
        yield from step.commands
