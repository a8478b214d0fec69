"""Ask an agent for its health or an answer, on its machine, because it listens on loopback only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from paddock.base.errors import BadInput
from paddock.channels import Guest, onboard
from paddock.core.deployment import Deployment
from paddock.core.observe import expect_own_id, expect_running, observe, reach
from paddock.core.resolve import locate
from paddock.kinds.workload import Answer, Command, Health, OpenPort, Page, Probe, Verdict, judged
from paddock.onboard.request import AskAgent
from paddock.runtimes.contract import Runtime

_CONNECT_SECONDS: Final = 3
_COMMAND_SECONDS: Final = 30


def ask(guest: Guest, runtime: Runtime, probe: Probe) -> Verdict:
    """Make a probe's request on the machine and return the verdict."""
    return _verdict(probe, _reply(guest, _question(runtime, probe), probe.request.seconds, patience=0.0))


def keys(runtime: Runtime) -> dict[str, Any]:
    """Return where the agent's keys are on its machine, and the users who may get one."""
    root = runtime.paths.etc.removesuffix("/current")
    return {"env_files": [f"{root}/secrets.env", f"{root}/generated.env"], "owners": list(runtime.owners)}


def healthy(guest: Guest, runtime: Runtime, health: Health, *, patience: float = 0.0) -> Verdict:
    """Return whether a running agent is healthy, by the check that its recipe declares.

    An agent that does not listen yet is waited for, at most ``patience`` seconds.
    """
    match health:
        case None:
            return Verdict(True, "it is running")
        case Command(argv):
            result = guest.run(runtime.enter(argv), deadline=_COMMAND_SECONDS)
            return health.judge({"code": result.code})
        case _:
            seconds = _CONNECT_SECONDS if isinstance(health, OpenPort) else health.request.seconds
            return judged_health(health, _reply(guest, _question(runtime, health), seconds, patience))


def health_question(runtime: Runtime, health: Health, patience: float) -> dict[str, Any] | None:
    """Return the question whose reply tells whether the agent is healthy; None if a program has to be run for that."""
    match health:
        case None | Command():
            return None
        case OpenPort():
            wanted: dict[str, Any] = {}
        case Page(_, status, values):
            wanted = {"status": status, "values": values}
    return {**_question(runtime, health), "patience": patience, "wanted": wanted}


def judged_health(health: Health, reply: Mapping[str, Any]) -> Verdict:
    """Return the verdict on the reply to the question of an agent's health."""
    match health:
        case None | Command():
            raise TypeError("the health of this agent is no question")
        case OpenPort():
            return Verdict(False, str(reply["refused"])) if "refused" in reply else health.judge(reply)
        case _:
            return _verdict(health, reply)


def _question(runtime: Runtime, probe: Probe | OpenPort) -> dict[str, Any]:
    if isinstance(probe, OpenPort):
        return {"port": probe.port, "seconds": _CONNECT_SECONDS}
    return {**asdict(probe.request), **keys(runtime)}


def _verdict(probe: Probe, reply: Mapping[str, Any]) -> Verdict:
    if "refused" in reply:
        return Verdict(False, str(reply["refused"]))
    return judged(probe.judge, Answer(reply["status"], reply["body"]))


def _reply(guest: Guest, question: Mapping[str, Any], seconds: float, patience: float) -> dict[str, Any]:
    asked = AskAgent({**question, "patience": patience})
    return onboard.ask(guest, "asking the agent", asked, deadline=seconds + patience + 20, into=dict[str, Any])


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
