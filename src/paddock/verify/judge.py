"""Turn facts into lines. Pure, so that every failure is a golden case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from paddock.base.text import one_line
from paddock.verify import confinement, egress, exposure, look, shipped, state
from paddock.verify.line import Line, Outcome, Subject

Facts = Mapping[str, Any]
_Judge = Callable[[Subject, Any, Facts], Iterator[Line]]

# By the name of the fact, in the order of the output.
_QUICK: Final[Mapping[str, _Judge]] = {
    "state": state.lines,
    "lease": state.lease,
    "ports": exposure.ports,
    "outside": confinement.outside_lines,
}
_ALL: Final[Mapping[str, _Judge]] = {
    "memory": state.memory,
    "limits": confinement.limits_lines,
    "isolation": confinement.lines,
    "login": confinement.login_lines,
    "listening": exposure.listening,
    "company": exposure.company,
    "leaks": exposure.leaks,
    "configuration": shipped.configuration,
    "code": shipped.code,
}


def lines(subject: Subject, facts: Facts, *, quick: bool) -> list[Line]:
    """Return the lines that follow from the facts, in the order of the output."""
    inside = facts["inside"]
    return [
        *_judged(_QUICK, subject, facts),
        *state.processes(subject, facts),
        *look.lines(subject.questions(quick=quick), inside.get("found", inside)),
        *(() if quick else egress.lines(subject.limited)),
        *(() if quick else _judged(_ALL, subject, facts)),
    ]


def _judged(judges: Mapping[str, _Judge], subject: Subject, facts: Facts) -> Iterator[Line]:
    for name, judge in judges.items():
        fact = facts[name]
        if "refused" in fact:
            evidence = f"could not be checked: {one_line(fact['refused'])}"
            yield Line(name, Outcome.FAILED, evidence, "run `paddock verify` again, as root")
            continue
        yield from judge(subject, fact, facts)
