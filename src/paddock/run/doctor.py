"""Examining places: whether they can be reached, and whether the credentials suffice for the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, field
from typing import Any

from paddock.errors import PaddockError
from paddock.frozen import frozen
from paddock.places import Finding
from paddock.run.deployment import Deployment
from paddock.run.remnants import left_over
from paddock.run.resolve import locate


@frozen
class Report:
    """The findings about one place."""

    place: str
    findings: Sequence[Finding]
    remedies: Sequence[str] = field(default_factory=tuple)

    @property
    def missing(self) -> bool:
        return any(not finding.ok for finding in self.findings)

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def examine(agents: Sequence[Deployment]) -> list[Report]:
    """Examine each place once, for all its agents."""
    places: dict[str, list[Deployment]] = {}
    for agent in agents:
        places.setdefault(agent.where, []).append(agent)
    return [_examine(name, found) for name, found in places.items()]


def _examine(name: str, agents: Sequence[Deployment]) -> Report:
    try:
        doctor = agents[0].place.doctor
        if doctor is None:
            return Report(name, [])
        findings, remedies = doctor.examine([locate(agent).machine_want for agent in agents])
    except PaddockError as error:
        return Report(name, [Finding("reached", False, error.message)], [error.hint] if error.hint else [])
    left = [Finding(each.remnant.name, True, each.sentence, warns=True) for each in left_over(agents[:1])]
    return Report(name, [*findings, *left], remedies)


def as_text(reports: Sequence[Report]) -> str:
    """Return the reports as text for people."""
    lines: list[str] = []
    for report in reports:
        lines.append(f"{report.place}:")
        lines += [f"  {_sign(finding)} {finding.subject}: {finding.evidence}" for finding in report.findings]
        if report.remedies:
            lines += ["", *(f"  {remedy}" for remedy in report.remedies)]
    return "\n".join(lines)


def _sign(finding: Finding) -> str:
    if not finding.ok:
        return "✗"
    return "!" if finding.warns else "✓"
