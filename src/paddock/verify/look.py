"""Collect facts about an agent with one program on its machine, in one round trip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import urlsplit

from paddock.base.frozen import frozen
from paddock.base.text import one_line
from paddock.channels import Guest
from paddock.channels.onboard import ask
from paddock.channels.sent import on_demand
from paddock.kinds.checks import Attempt, Check, Connect, Databases, LogLines, ReadFile, WriteInto
from paddock.kinds.workload import Answer, Command, OpenPort, Paths, Probes, Request, Verdict, judged
from paddock.onboard.facts.main import Look
from paddock.onboard.systemd.look import Inspect
from paddock.runtimes.contract import Isolation
from paddock.verify.line import Line, Outcome, Subject

# Folders that are searched for secrets after the others, because an agent can fill them with files, and the search ends
# after some seconds.
_OPEN_FOLDERS: Final = ("/run", "/tmp", "/var/tmp")  # noqa: S108
SECONDS: Final = 150
_LOOPBACK: Final = "paddock.onboard.loopback"
INSIDE: Final = "paddock.onboard.facts.beside"
_KINDS: Final[Mapping[type, str]] = {
    Request: "request",
    ReadFile: "file",
    Databases: "databases",
    Attempt: "attempt",
    OpenPort: "port",
    WriteInto: "write",
    Connect: "connect",
    LogLines: "log",
}


@frozen
class RuntimeArgvs:
    """What the program on the machine gets from the agent's runtime."""

    inspect: Inspect
    enter: Sequence[str]  # ends with Python's -c; runs a program beside the agent
    logs: Sequence[str]


def look(
    guest: Guest, subject: Subject, argvs: RuntimeArgvs, *, quick: bool, health: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the facts about the agent; with ``quick``, only those that a quick verification needs.

    With ``health``, a question that the agent answers once it is healthy, it is asked first. The fact ``health`` is the
    reply. It is the only fact if the reply is not the wanted one.
    """
    asked = question(subject, argvs, quick=quick, health=health)
    deadline = SECONDS + (health["patience"] if health else 0)
    return ask(guest, "looking at the agent", asked, deadline=deadline, into=dict[str, Any])


def question(
    subject: Subject,
    argvs: RuntimeArgvs,
    *,
    quick: bool,
    only_running: bool = False,
    health: Mapping[str, Any] | None = None,
) -> Look:
    """Return the request for the facts. With ``only_running``, there are none unless the agent is running."""
    paths, own = subject.paths, f"{subject.paths.state}/.paddock"
    asked: dict[str, object] = {
        "all": not quick,
        "only_running": only_running,
        "health": health,
        "processes": list(subject.processes),
        "lease_file": f"{own}/lease",
        "holder_file": f"{own}/holder",
        "folders": [paths.state, own, paths.home],
        "etc": paths.etc,
        "files": sorted(subject.files),
        "tree": subject.tree,
        "account": subject.account,
        "ports": sorted({*subject.ports, *subject.health_port}),
        "alone": Isolation.ACCOUNT in subject.confined,
        "env_files": [f"{paths.root}/secrets.env", f"{paths.root}/generated.env"],
        "own_machine": subject.own_machine,
        "search": ["/etc", *(["/"] if subject.own_machine else []), *_OPEN_FOLDERS, paths.state, paths.root],
        "skip": [paths.code],  # `files.code` compares it
        "logs": list(argvs.logs),
        "inside": {
            "argv": list(argvs.enter),
            "program": on_demand(INSIDE),
            "load": [] if quick else [_LOOPBACK],  # before it gets the questions
            "questions": [
                {
                    "kind": _KINDS[type(check.question)],
                    "first": check.name == ANSWER,
                    "own": isinstance(check.question, Request) and urlsplit(check.question.url).port in subject.ports,
                    **asdict(check.question),
                }
                for check in subject.questions(quick=quick)
            ],
        },
    }
    return Look(argvs.inspect, asked)


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
