"""Asking an agent a question."""

from __future__ import annotations

from paddock.errors import BadInput
from paddock.recipes.workload import Verdict
from paddock.run.ask import ask
from paddock.run.deployment import Deployment
from paddock.run.observe import expect_own_id, expect_running, observe, reach
from paddock.run.resolve import locate


def expect_words(prompt: str) -> None:
    """Raise an error for a prompt without a word."""
    if not prompt.strip():
        raise BadInput("the prompt is empty", hint='write a question: paddock ask hermes "What do you remember?"')


def ask_agent(agent: Deployment, prompt: str) -> Verdict:
    """Send a prompt to the running agent and return its answer."""
    expect_words(prompt)
    located = locate(agent)
    seen = expect_own_id(located, observe(located))
    probe = located.probes(prompt).prompt
    if probe is None:
        raise BadInput(f"{agent.name} is a {agent.spec.kind}, which takes no prompts")
    return ask(reach(located, expect_running(located, seen)), located.runtime, probe)
