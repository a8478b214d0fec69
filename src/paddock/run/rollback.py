"""The verb `rollback`: go back to the version and the state from before the last upgrade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from paddock.errors import BadInput
from paddock.frozen import frozen
from paddock.plan.step import Plan
from paddock.plan.upgrades import Upgrade
from paddock.run import forgotten, upgrading, verbs
from paddock.run.deployment import Deployment
from paddock.run.observe import expect_own_id, observe, reach
from paddock.run.resolve import locate, resolve


@frozen
class Rollback:
    """What a rollback would do, for a person to agree to."""

    last: Upgrade
    plan: Plan
    lost: str  # what the agent would no longer know, in words


def planned(agent: Deployment) -> Rollback:
    """Observe an agent and plan to go back to the version and the state from before its last upgrade."""
    located = locate(agent)
    seen = expect_own_id(located, observe(located))
    found = seen.agent
    if found is None or found.upgrade is None:
        reach(located, seen)
        raise BadInput(f"{agent.name} has no upgrade to go back from")
    last = replace(found.upgrade, back=True)
    if found.ran != last.after and not found.goes_back:
        raise BadInput(f"{agent.name} runs with {found.ran}: the upgrade to {last.after} did not take place")
    before = resolve(locate(upgrading.as_before(agent, last)))
    plan = verbs.plan_up(before, before.want(), replace(seen, agent=replace(found, upgrade=last)))
    return Rollback(last, plan, forgotten.since(located, reach(located, seen), last.at))


def rollback(agent: Deployment, last: Upgrade, rewrite: Callable[[], Callable[[], object]]) -> str:
    """Go back from an upgrade; return a line about the result.

    ``rewrite`` writes the old version into the file, and returns what undoes that. It is called after the machine has
    recorded where the agent goes: from then on a plain `up` ends what this run begins.
    """
    upgrading.begin_rollback(agent)
    undo = rewrite()
    try:
        verbs.up(upgrading.as_version(agent, last.before, last.housing))
    except upgrading.Stays:
        undo()
        raise
    return f"{agent.name}: runs with {last.before} and its state from before {last.after}; what it had is saved"
