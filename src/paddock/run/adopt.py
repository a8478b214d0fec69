"""Taking what is there into a file's care."""

from __future__ import annotations

from dataclasses import replace

from paddock.errors import BadInput
from paddock.places import AdoptWish, Portrait
from paddock.plan.step import Plan
from paddock.run import strays
from paddock.run.deployment import Deployment, Observation
from paddock.run.lock import working_on
from paddock.run.verbs import converge


def wish(vmid: int | None, state: str | None) -> AdoptWish:
    """What a person asked for."""
    return AdoptWish(vmid, state)


def portray(agent: Deployment, wish: AdoptWish) -> Portrait:
    """What the wish is about, as the file would say it."""
    said = agent.spec.machine.vmid
    if wish.vmid is not None and said not in (None, wish.vmid):
        raise BadInput(
            f"the file says that {agent.name}'s machine is {said}, not {wish.vmid}",
            hint="take machine.vmid out if you mean another one",
        )
    portrait = agent.place.portray(agent.name, wish, agent.place.observe(agent.name))
    if agent.spec.state.volume is None or wish.state is None:
        return portrait
    # A volume that goes to a pet gets another name, and is found by the path the pet has it at.
    state = {**dict(portrait.said.get("state", {})), "volume": None}
    return replace(portrait, said={**portrait.said, "state": state})


def plan(agent: Deployment, wish: AdoptWish) -> Plan:
    """What adopting it would do."""
    return _planned(agent, wish, agent.observe())


def _planned(agent: Deployment, wish: AdoptWish, seen: Observation) -> Plan:
    """What adopting it would do, once its root disk was looked at: from then on `down` destroys that."""
    planned = agent.plan_adopt(wish, seen)
    if planned.empty or planned.refusals:
        return planned
    remedy = (
        "stop the agent, move them onto a volume of the container,"
        " and say which volume that is: --state mp0; what is on it becomes the agent's home"
    )
    container = f"container {wish.vmid}"
    found = strays.refusals(agent, container, lambda: agent.place.visit(agent.machine_want, wish, seen.place), remedy)
    return replace(planned, refusals=found)


def adopt(agent: Deployment, wish: AdoptWish) -> str:
    """Adopt it; returns what to tell about it."""
    with working_on(agent):
        done, _ = converge(agent, lambda seen: _planned(agent, wish, seen))
    told = "was adopted before" if done.empty else "adopted"
    return f"{agent.name}: {told}; `paddock plan` tells what `up` would change"
