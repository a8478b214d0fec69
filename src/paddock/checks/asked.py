"""Checks whose questions are answered by a program beside the agent, which runs as the agent's user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from paddock.checks.line import Line, Outcome
from paddock.recipes.checks import Attempt, Check, WriteInto
from paddock.recipes.workload import Answer, Command, OpenPort, Paths, Probes, Request, Verdict, judged
from paddock.visible import one_line

ANSWER: Final = "answer"  # the check with the prompt, to which the others give way


def of_every_agent(agent: str, paths: Paths, probes: Probes) -> Iterator[Check]:
    """Yield the checks that every kind of agent has: writing, health and an answer to a prompt."""
    yield Check(
        "state.writable",
        WriteInto(paths.home),
        lambda _: Verdict(True, f"the agent can write to {paths.home}"),
        f"free space there or grow the volume (state.size); `paddock cycle --only {agent}` repairs owners",
        quick=True,
    )
    logs = f"`paddock logs {agent}` tells more"
    match probes.health:
        case None:
            pass
        case Command(argv) as health:
            yield Check("health", Attempt(argv), health.judge, logs, quick=True)
        case OpenPort() as health:
            yield Check("health", health, health.judge, logs, quick=True)
        case health:
            yield Check("health", health.request, health.judge, logs, quick=True)
    if probes.prompt:
        hint = f"the checks of the model may tell why; else {logs}"
        yield Check(ANSWER, probes.prompt.request, probes.prompt.judge, hint)


def lines(checks: Sequence[Check], found: dict[str, Any]) -> Iterator[Line]:
    """Judge the answers in ``found``, which the program beside the agent printed in the order of the checks."""
    if "refused" in found:
        full = "no space left on device" in str(found["refused"])
        hint = "free disk space on the machine" if full else "run `paddock up` again"
        evidence = f"cannot run a program as the agent: {one_line(str(found['refused']))}"
        yield Line("inside", Outcome.FAILED, evidence, hint)
        return
    if "missing" in found:
        yield Line("inside", Outcome.UNAVAILABLE, "there is no Python where the agent runs")
        return
    answers = found.get("answers")
    if not isinstance(answers, list) or len(answers) != len(checks) or not all(map(_is_answer, answers)):
        # The program runs as the agent, which can make it print anything.
        yield Line("inside", Outcome.FAILED, "the program beside the agent printed answers in a wrong form")
        return
    held: set[str] = set()
    for check, answer in zip(checks, answers, strict=True):
        if check.needs and check.needs not in held:
            yield Line(check.name, Outcome.UNAVAILABLE, f"not checked, because {check.needs} did not pass")
            continue
        verdict = _verdict(check, answer["found"])
        if verdict.ok:
            held.add(check.name)
        if verdict.unknown:
            yield Line(check.name, Outcome.UNAVAILABLE, one_line(verdict.evidence), seconds=answer["seconds"])
            continue
        # The agent wrote the evidence. It must not look like another line.
        hint = verdict.hint or check.hint
        yield Line.of(check.name, verdict.ok, one_line(verdict.evidence), hint, answer["seconds"])


def _is_answer(answer: Any) -> bool:
    if not isinstance(answer, dict) or not isinstance(answer.get("found"), dict):
        return False
    return isinstance(answer.get("seconds"), int | float)


def _verdict(check: Check, found: dict[str, Any]) -> Verdict:
    if "refused" in found:
        return Verdict(False, str(found["refused"]))
    if isinstance(check.question, Request):
        return judged(check.judge, Answer(found.get("status", 0), found.get("body")))
    return judged(check.judge, found.get("content"))
