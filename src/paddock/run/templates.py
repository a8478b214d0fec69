"""Building, listing and pruning templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from paddock.errors import BadInput
from paddock.places import TemplateInfo
from paddock.plan import verbs as plans
from paddock.process import CommandFailed
from paddock.recipes.packaged import LOCKS
from paddock.recipes.workload import Distribution
from paddock.run.deployment import Deployment
from paddock.run.lock import place_lock
from paddock.run.observe import observe
from paddock.run.perform import carry_out
from paddock.run.resolve import locate
from paddock.runtimes import codetree
from paddock.runtimes.package_index import OLDEST_PYTHON, newest


def build(agents: Sequence[Deployment], *, rebuild: bool) -> Iterator[str]:
    """Build missing templates, or all of them again; yield a line for each agent."""
    for located in map(locate, agents):
        templates, want = located.place.templates, located.machine_want
        if templates is None or want.template is None:
            yield f"{located.name}: its machine does not use a template"
            continue
        with place_lock(located.place):
            seen = observe(located)
            plan = plans.template(located.name, templates.plan(want, seen.place, rebuild=rebuild))
            carry_out(located, plan, seen)
        yield f"{located.name}: template {want.template.id} {'exists' if plan.empty else 'is built'}"


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
    for place, agent in _one_per_place(agents):
        templates = agent.place.templates
        if templates is None:
            continue
        seen = agent.place.observe()
        for info in (each for each in templates.listed(seen) if each.prunable):
            if really:
                templates.remove(info, seen)
            fate = "removed" if really else "would be removed with --yes"
            what = "template" if info.finished else "unfinished template"
            yield f"{place}: {what} {info.number} ({info.label} {info.template}) {fate}"


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
    if not agents:
        raise BadInput("the file has no agents")
    return list({agent.where: agent for agent in agents}.items())
