"""Asking an agent a question."""

from __future__ import annotations

from paddock.errors import BadInput, PaddockError
from paddock.recipes.workload import Verdict
from paddock.run.ask import ask
from paddock.run.deployment import Deployment
from paddock.run.observe import expect_own_id, observe, reach
from paddock.run.resolve import locate


def ask_agent(agent: Deployment, prompt: str) -> Verdict:
    """Send a prompt to the running agent and return its answer."""
    located = locate(agent)
    seen = expect_own_id(located, observe(located))
    probe = located.probes(prompt).prompt
    if probe is None:
        raise BadInput(f"{agent.name} is a {agent.spec.kind}, which takes no prompts")
    if seen.agent is not None and not seen.agent.active:
        # Another program that listens on the agent's port must not receive its key.
        verb = "run" if located.runtime.foreground else "up"
        raise PaddockError(f"{agent.name} is not running", hint=f"`paddock {verb}` starts it")
    return ask(reach(located, seen), located.paths, probe)
