"""What every agent's own user is asked, whatever its kind: to write, to be healthy, to answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from paddock.checks.line import Line, Outcome
from paddock.recipes.checks import Attempt, Check, WriteInto
from paddock.recipes.workload import Answer, Command, OpenPort, Paths, Probes, Request, Verdict, judged
from paddock.visible import one_line


def of_every_agent(agent: str, paths: Paths, probes: Probes) -> Iterator[Check]:
    """The questions that need no recipe of their own."""
    yield Check(
        "state.writable",
        WriteInto(paths.home),
        lambda _: Verdict(True, f"the agent can write to {paths.home}"),
        f"make room there, or let it grow (state.size); `paddock cycle --only {agent}` puts owners right",
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
        hint = f"the lines about the model may tell why; else {logs}"
        yield Check("answer", probes.prompt.request, probes.prompt.judge, hint)


def lines(checks: Sequence[Check], found: dict[str, Any]) -> Iterator[Line]:
    """What came of the questions; ``found`` is what was printed inside, the answers in the order of the questions."""
    if "refused" in found:
        full = "no space left on device" in str(found["refused"])
        hint = "make room on its machine" if full else "run `paddock up` again"
        yield Line(
            "inside", Outcome.FAILED, f"nothing can be run as the agent: {one_line(str(found['refused']))}", hint
        )
        return
    if "missing" in found:
        yield Line("inside", Outcome.UNAVAILABLE, "there is no Python beside the agent to ask with")
        return
    answers = found.get("answers")
    if not isinstance(answers, list) or len(answers) != len(checks) or not all(map(_is_answer, answers)):
        # What asks runs as the agent, who can make it say anything.
        yield Line("inside", Outcome.FAILED, "what was asked beside the agent was not answered in the right form")
        return
    held: set[str] = set()
    for check, answer in zip(checks, answers, strict=True):
        if check.needs and check.needs not in held:
            yield Line(check.name, Outcome.UNAVAILABLE, f"cannot be told while {check.needs} fails")
            continue
        verdict = _verdict(check, answer["found"])
        if verdict.ok:
            held.add(check.name)
        # Its words are the agent's, and must not look like another line.
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
