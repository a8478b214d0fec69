"""Examine places: whether they can be reached, whether the credentials suffice, and which remnants they have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, field
from typing import Any, Final

from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.text import one_line
from paddock.channels.onboard import ask
from paddock.core.deployment import Deployment
from paddock.core.resolve import Located, locate
from paddock.file.agent_id import AgentId
from paddock.onboard.observe import AgentsSeen, ReportAgents
from paddock.places.contract import Finding, Remnant
from paddock.verbs.copies import is_throwaway

_LONGEST: Final = 200


@frozen
class Left:
    """A remnant and its place."""

    place: str
    project: str
    remnant: Remnant

    @property
    def drift(self) -> str:
        """Why it is here, in a few words."""
        if not self.remnant.is_agent:
            return "an interrupted build"
        return "the copy of a drill" if self._of_drill else "not in the file"

    @property
    def sentence(self) -> str:
        """The remnant, and a hint what to do about it."""
        left = self.remnant
        if not left.is_agent:
            built = f"{self.place}: an interrupted build has left the {left.name} ({left.machine}, {left.status})"
            return f"{built}; `paddock template prune --yes` removes it"
        if self._of_drill:
            return f"{self.place}: a drill has left {left.name}: {self._there}; the next `paddock drill` removes it"
        return (
            f"{self.place}: {left.name} of project {self.project} is not in the file: {self._there}, its state is"
            f" {left.state}; `paddock rename {left.name} NEW` if it has another name now; otherwise write it into the"
            " file again, to use it or to remove it with `paddock down` and `paddock forget`"
        )

    @property
    def _there(self) -> str:
        left = self.remnant
        if left.machine is None:
            return "it is not installed" if left.status == "absent" else f"it is {left.status} there"
        return "it has no machine" if left.status == "absent" else f"its machine {left.machine} is {left.status}"

    @property
    def _of_drill(self) -> bool:
        return is_throwaway(AgentId(self.project, self.remnant.name))


def left_over(agents: Sequence[Deployment]) -> list[Left]:
    """Read the places of these agents, each once; return the remnants, which no agent of the file uses."""
    places = {(agent.where, agent.spec.runtime): agent for agent in agents}
    found = [Left(agent.where, agent.project, each) for agent in places.values() for each in _remnants(agent)]
    return list(dict.fromkeys(found))


def _remnants(agent: Deployment) -> Iterator[Remnant]:
    names = {agent.name, *agent.others}
    try:
        seen = agent.place.observed() or agent.place.observe()
        yield from agent.place.remnants(agent.project, names, seen)
        if agent.place.traits.keeps_machine:
            yield from _on_host(locate(agent), names)
    except PaddockError:
        return  # the verb itself says that the place cannot be read


def _on_host(agent: Located, names: set[str]) -> Iterator[Remnant]:
    """Yield the agents of the project on a machine that Paddock did not create."""
    guest = agent.place.guest(agent.machine_want, agent.place.observe(), {})
    if guest is None:
        return
    told = ask(guest, "looking for agents", ReportAgents(agent.runtime.deployed), into=AgentsSeen)
    installed, active, states = told.agents, told.active, told.states
    for text in sorted({*installed, *states}):
        found = AgentId.parse(text)
        if found.project == agent.project and found.name not in names:
            status = "running" if text in active else "installed" if text in installed else "absent"
            state = one_line(states.get(text, "none"), _LONGEST)
            yield Remnant(name=one_line(found.name, _LONGEST), machine=None, status=status, state=state)


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
