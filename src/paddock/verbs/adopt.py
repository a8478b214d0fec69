"""Adopting an existing machine or volume."""

from __future__ import annotations

from dataclasses import replace

from paddock.base.errors import BadInput
from paddock.core.converge import converge
from paddock.core.deployment import Deployment
from paddock.core.files import RootDisk
from paddock.core.lock import agent_lock
from paddock.core.observe import Observation, observe
from paddock.core.resolve import Located, locate
from paddock.places.contract import Description
from paddock.plan import verbs as plans
from paddock.plan.step import AdoptTarget, Plan


def describe(agent: Deployment, target: AdoptTarget) -> Description:
    """Return the target in the words of the file."""
    said = agent.spec.machine.vmid
    if target.machine is not None and said not in (None, target.machine):
        raise BadInput(
            f"the file says that the machine of {agent.name} is {said}, not {target.machine}",
            hint="remove machine.vmid from the file if you mean another one",
        )
    if agent.place.adoption is None:
        raise BadInput(f"{agent.spec.place} does not support adopting machines or volumes")
    found = agent.place.adoption.describe(agent.id, target, agent.place.observe(locate(agent).machine_want))
    if agent.spec.state.volume is None or target.state is None:
        return found
    # A volume that moves to a pet gets another name, and is found by the path where the pet mounts it.
    state = {**dict(found.said.get("state", {})), "volume": None}
    return replace(found, said={**found.said, "state": state})


def plan(agent: Deployment, target: AdoptTarget, *, looked: bool = False) -> Plan:
    """Observe an agent and plan its adoption. ``looked`` skips the check of the root disk."""
    located = locate(agent)
    return _plan(located, target, observe(located), RootDisk(looked))


def _plan(agent: Located, target: AdoptTarget, seen: Observation, disk: RootDisk) -> Plan:
    """Plan the adoption, after a look at the root disk: from then on `down` destroys it."""
    adoption = agent.place.adoption
    if adoption is None:
        raise BadInput(f"{agent.spec.place} does not support adopting machines or volumes")
    machine = adoption.plan(agent.machine_want, target, seen.place)
    planned = plans.adopt(agent.name, machine, keeps_machine=agent.place.traits.keeps_machine)
    if planned.empty or planned.refusals:
        return planned
    remedy = (
        f"`paddock adopt {agent.name} --from {target.machine}` copies them into the state of a new machine; to keep"
        " this one, stop the agent, move them onto a volume of the container, and name that volume: --state mp0"
    )
    visit = lambda: adoption.visit(agent.machine_want, target, seen.place)  # noqa: E731
    return replace(planned, refusals=disk.refusals(agent, f"container {target.machine}", visit, remedy))


def adopt(agent: Deployment, target: AdoptTarget, *, looked: bool = False) -> str:
    """Adopt the target; return a line about the result."""
    with agent_lock(agent):
        located, disk = locate(agent), RootDisk(looked)
        done, _ = converge(located, lambda seen: _plan(located, target, seen, disk))
    told = "was already adopted" if done.empty else "adopted"
    return f"{agent.name}: {told}; `paddock plan` shows what `up` would change"
