"""Taking what is there into a file's care."""

from __future__ import annotations

from dataclasses import replace

from paddock.errors import BadInput
from paddock.places import AdoptTarget, Description
from paddock.plan.step import Plan
from paddock.run import strays
from paddock.run.deployment import Deployment, Observation
from paddock.run.lock import agent_lock
from paddock.run.verbs import converge


def target(vmid: int | None, state: str | None) -> AdoptTarget:
    """What a person asked for."""
    return AdoptTarget(vmid, state)


def describe(agent: Deployment, target: AdoptTarget) -> Description:
    """What the wish is about, as the file would say it."""
    said = agent.spec.machine.vmid
    if target.vmid is not None and said not in (None, target.vmid):
        raise BadInput(
            f"the file says that {agent.name}'s machine is {said}, not {target.vmid}",
            hint="take machine.vmid out if you mean another one",
        )
    description = agent.place.describe(agent.name, target, agent.place.observe(agent.name))
    if agent.spec.state.volume is None or target.state is None:
        return description
    # A volume that goes to a pet gets another name, and is found by the path the pet has it at.
    state = {**dict(description.said.get("state", {})), "volume": None}
    return replace(description, said={**description.said, "state": state})


def plan(agent: Deployment, target: AdoptTarget) -> Plan:
    """What adopting it would do."""
    return _planned(agent, target, agent.observe())


def _planned(agent: Deployment, target: AdoptTarget, seen: Observation) -> Plan:
    """What adopting it would do, once its root disk was looked at: from then on `down` destroys that."""
    planned = agent.plan_adopt(target, seen)
    if planned.empty or planned.refusals:
        return planned
    remedy = (
        "stop the agent, move them onto a volume of the container,"
        " and say which volume that is: --state mp0; what is on it becomes the agent's home"
    )
    container = f"container {target.vmid}"
    found = strays.refusals(agent, container, lambda: agent.place.visit(agent.machine_want, target, seen.place), remedy)
    return replace(planned, refusals=found)


def adopt(agent: Deployment, target: AdoptTarget) -> str:
    """Adopt it; returns what to tell about it."""
    with agent_lock(agent):
        done, _ = converge(agent, lambda seen: _planned(agent, target, seen))
    told = "was adopted before" if done.empty else "adopted"
    return f"{agent.name}: {told}; `paddock plan` tells what `up` would change"
