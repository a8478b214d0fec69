"""Restart an agent."""

from __future__ import annotations

from paddock.errors import Refused
from paddock.run import restoring, verbs
from paddock.run.deployment import Deployment
from paddock.run.lock import agent_lock
from paddock.run.observe import expect_own_id, observe, reach
from paddock.run.resolve import locate


def restart(agent: Deployment) -> str:
    """Stop an agent, bring it up again and verify it; return a line about the result."""
    with agent_lock(agent):
        located = locate(agent)
        if located.runtime.foreground:
            raise Refused(
                f"{agent.name} runs in the foreground, so only the person at its terminal can restart it",
                hint=f"end `paddock run {agent.name}` with Ctrl-C, and start it again",
            )
        guest = reach(located, expect_own_id(located, observe(located)))
        with agent.reporter.step("agent.stop", f"stop {agent.name}"):
            restoring.stop(located, guest)
    return verbs.up(agent)
