"""Templates as people work with them: built, listed, pruned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from paddock.errors import BadInput
from paddock.recipes.packaged import LOCKS
from paddock.run.deployment import Deployment
from paddock.run.lock import place_lock
from paddock.runtimes import codetree

_OLDEST_PYTHON: Final = "3.11"


def build(agents: Sequence[Deployment], *, anew: bool) -> Iterator[str]:
    """Build what is missing, or everything anew; yields a line for each agent."""
    for agent in agents:
        if agent.machine_want.template is None:
            yield f"{agent.name}: its machine is not made from a template"
            continue
        with place_lock(agent.place):
            seen = agent.observe()
            plan = agent.plan_template(seen, anew=anew)
            agent.carry_out(plan, seen)
        yield f"{agent.name}: template {agent.machine_want.template.id} {'was there' if plan.empty else 'is built'}"


def listed(agents: Sequence[Deployment]) -> list[dict[str, Any]]:
    """The templates of all places of these agents."""
    return [
        {"place": place, **vars(info), "machines": ", ".join(map(str, info.machines))}
        for place, agent in _one_per_place(agents)
        for info in agent.place.templates(agent.place.observe())
    ]


def prune(agents: Sequence[Deployment], *, really: bool) -> Iterator[str]:
    """Remove what nothing needs; yields a line for each."""
    for place, agent in _one_per_place(agents):
        for info in agent.place.templates(agent.place.observe()):
            if info.prunable:
                if really:
                    agent.place.remove_template(info)
                fate = "removed" if really else "would go; --yes removes it"
                yield f"{place}: template {info.vmid} ({info.label} {info.template}) {fate}"


def write_lock(agent: Deployment) -> Path:
    """Lock an agent's code anew, beside its file; returns where."""
    wanted = agent.distribution
    if wanted is None:
        raise BadInput(f"{agent.name} is a {agent.spec.kind}: its code is Debian's packages, which have no lock")
    path = agent.folder / LOCKS / wanted.lock
    with agent.reporter.step("lock", f"resolve {wanted.requirement} {wanted.version}"):
        text = codetree.make_lock(wanted, _OLDEST_PYTHON)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _one_per_place(agents: Sequence[Deployment]) -> list[tuple[str, Deployment]]:
    if not agents:
        raise BadInput("there is no agent in the file")
    return list({agent.where: agent for agent in agents}.items())
