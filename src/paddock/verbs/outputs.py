"""Facts about an agent's machine for other programs, and commands that only a person can run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from paddock.base.frozen import frozen
from paddock.base.text import one_line
from paddock.core.deployment import Deployment
from paddock.core.observe import observe
from paddock.core.resolve import locate
from paddock.plan.step import Goal

Values = Mapping[str, str | int | None]


def outputs(agent: Deployment) -> Values:
    """Return number, host name and address of the machine; None for those it does not have."""
    want = locate(agent).machine_want
    machine = agent.place.machine(want, agent.place.observed(want) or agent.place.observe(want))
    return {"vmid": machine.number, "hostname": machine.hostname, "address": machine.address}


def as_text(found: Mapping[str, Values]) -> Iterator[str]:
    """Yield lines for people."""
    for agent, values in found.items():
        yield from (
            f"{agent}.{name} = {'-' if value is None else one_line(str(value))}" for name, value in values.items()
        )


def as_env(found: Mapping[str, Values]) -> Iterator[str]:
    """Yield the lines of an env file, without values that are None."""
    for agent, values in found.items():
        prefix = re.sub(r"[^A-Z0-9]", "_", agent.upper())
        yield from (
            f"{prefix}_{name.upper()}={one_line(str(value))}" for name, value in values.items() if value is not None
        )


def as_terraform(found: Mapping[str, Values]) -> Iterator[str]:
    """Yield the lines of a file for Terraform: one local value, laid out as `terraform fmt` does."""
    yield "locals {"
    yield "  paddock = {"
    for agent, values in found.items():
        yield f"    {_hcl(agent)} = {{"
        width = max(map(len, values))
        yield from (f"      {name:{width}} = {_hcl(value)}" for name, value in values.items())
        yield "    }"
    yield "  }"
    yield "}"


def _hcl(value: str | int | None) -> str:
    """Return a value as an expression of Terraform. Nothing in a text begins an expression of its own."""
    plain = one_line(value) if isinstance(value, str) else value
    return json.dumps(plain, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


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
