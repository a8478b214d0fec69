"""Commands that only a person can run."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.frozen import frozen
from paddock.plan.machine import Goal
from paddock.run.deployment import Deployment
from paddock.run.observe import observe
from paddock.run.resolve import locate
from paddock.visible import one_line


@frozen
class Script:
    """The lines for a shell of root, and why there may be no commands among them."""

    lines: Sequence[str]
    refused: Sequence[str]


def script(agent: Deployment) -> Script:
    """Return the commands that a person has to run for `up`, with reasons as shell comments."""
    located = locate(agent)
    seen = observe(located, shared=True)
    plan = agent.place.plan(Goal.UP, located.machine_want, seen.place)
    steps = [step for step in plan.steps if step.commands]
    # Further lines of a comment would be commands.
    refused = [one_line(f"{agent.name}: refused: {refusal.reason}") for refusal in plan.refusals]
    lines = [f"# {line}" for line in refused]
    if not steps and not refused:
        lines.append(f"# {agent.name}: nothing for root to do")
    for step in steps:
        lines.append(one_line(f"# {agent.name}: {step.title} ({step.reason})"))
        if seen.machine.status == "absent":
            lines.append("# its machine does not exist yet: `paddock up` creates it and waits for these commands")
        lines += step.commands
    return Script(lines, refused)
