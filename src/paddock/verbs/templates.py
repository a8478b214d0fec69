"""Building, listing and pruning templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.base.errors import BadInput
from paddock.base.process import CommandFailed
from paddock.core.converge import converge
from paddock.core.deployment import Deployment
from paddock.core.observe import Observation
from paddock.core.resolve import Located, locate
from paddock.kinds.code import Distribution
from paddock.kinds.packaged import LOCKS
from paddock.places.contract import PlaceSeen, TemplateInfo, Templates, TemplateWant
from paddock.plan.actions import InstallContents
from paddock.plan.step import Plan
from paddock.runtimes.code import tree as codetree
from paddock.runtimes.code.tree import OLDEST_PYTHON, newest


def build(agents: Sequence[Deployment], *, rebuild: bool) -> Iterator[str]:
    """Build missing templates, or all of them again; yield a line for each agent."""
    for located in map(locate, agents):
        templates, want = located.place.templates, located.machine_want
        if templates is None or want.template is None:
            yield f"{located.name}: its machine does not use a template"
            continue
        order = _Order(located, templates, want.template, rebuild)
        converge(located, order.plan)
        yield f"{located.name}: template {want.template.id} {'is built' if order.builds else 'exists'}"


@dataclass
class _Order:
    """A template to build, unless it exists or an earlier attempt of this run has finished it."""

    agent: Located
    templates: Templates[PlaceSeen]
    want: TemplateWant
    rebuild: bool
    known: frozenset[int] | None = None  # the templates with these contents at the first attempt
    builds: bool = False

    def plan(self, seen: Observation) -> Plan:
        listed = self.templates.listed(seen.place)
        there = frozenset(info.number for info in listed if info.finished and info.template == self.want.id)
        self.known = there if self.known is None else self.known
        again = self.rebuild and there <= self.known
        found = self.templates.plan(self.agent.machine_want, seen.place, rebuild=again)
        self.builds = self.builds or any(isinstance(step.action, InstallContents) for step in found.steps)
        return found.of(self.agent.name)


def listed(agents: Sequence[Deployment]) -> list[dict[str, Any]]:
    """Return the templates of all places of these agents."""
    return [
        {"place": place, "vmid": info.number, **_described(info)}
        for place, agent in _one_per_place(agents)
        if agent.place.templates
        for info in agent.place.templates.listed(agent.place.observe())
    ]


def _described(info: TemplateInfo) -> dict[str, Any]:
    fields = {name: value for name, value in vars(info).items() if name not in ("number", "finished")}
    return {**fields, "machines": ", ".join(map(str, info.machines))}


def prune(agents: Sequence[Deployment], *, really: bool) -> Iterator[str]:
    """Remove templates that nothing needs, and the builders of interrupted runs; yield a line for each."""
    found = False
    for place, agent in _one_per_place(agents):
        templates = agent.place.templates
        if templates is None:
            continue
        seen = agent.place.observe()
        for info in (each for each in templates.listed(seen) if each.prunable):
            found = True
            if really:
                templates.remove(info, seen)
            fate = "removed" if really else "would be removed with --yes"
            what = "template" if info.finished else "unfinished template"
            yield f"{place}: {what} {info.number} ({info.label} {info.template}) {fate}"
    if not found:
        yield "nothing to remove"


def write_lock(agent: Deployment) -> Path:
    """Resolve an agent's code into a new lock beside its file; return the path."""
    if agent.spec.image_brings_code:
        raise BadInput(f"the image {agent.spec.container.image} brings the code of {agent.name}, which needs no lock")
    wanted = agent.recipe.distribution(agent.spec, agent.folder)
    if wanted is None:
        raise BadInput(f"{agent.name} is a {agent.spec.kind}: its code is in Debian packages, which have no lock")
    path = agent.folder / LOCKS / wanted.lock
    with agent.reporter.step("lock", f"resolve {wanted.requirement} {wanted.version}"):
        try:
            text = codetree.make_lock(wanted, OLDEST_PYTHON)
        except CommandFailed:
            _expect_in_index(wanted)
            raise
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _expect_in_index(wanted: Distribution) -> None:
    """Raise an error that names the newest version, if the package index answers and does not have the wanted one."""
    if wanted.local is not None:
        return
    version = newest(wanted.name)
    try:
        newest(f"{wanted.name} == {wanted.version}")
    except CommandFailed:
        raise BadInput(
            f"the package index has no wheel of {wanted.name} {wanted.version}",
            hint=f"the newest version there is {version}",
        ) from None


def _one_per_place(agents: Sequence[Deployment]) -> list[tuple[str, Deployment]]:
    return list({agent.where: agent for agent in agents}.items())
