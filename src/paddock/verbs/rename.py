"""Giving an agent another name or project: its machine and state get the new id, and `up` does the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paddock.base.errors import BadInput
from paddock.core import converge
from paddock.core.deployment import Deployment
from paddock.core.lock import agent_lock
from paddock.core.resolve import locate
from paddock.file.agent_id import AgentId
from paddock.plan.step import Plan

_RENAMES: Final = frozenset({"pet.rename", "cattle.rename", "agent.rename"})


def from_project(agent: Deployment, project: str) -> Deployment:
    """Return the agent as one that has another project so far."""
    if project == agent.project:
        raise BadInput(f"{project} is the project of the file already")
    gateway = agent.model_gateway
    if gateway:
        # It may still have the other project too, and is needed for its address only.
        gateway = replace(gateway, formers=(*gateway.formers, AgentId(project, gateway.name)))
    return replace(agent, formers=(AgentId(project, agent.name),), model_gateway=gateway)


def from_name(agent: Deployment, former: str, name: str) -> Deployment:
    """Return the agent with a new name; ``former`` is its name so far.

    The state keeps its path, because an agent remembers absolute paths of its files.
    """
    state = agent.spec.state.model_copy(update={"path": state_path(agent, former)})
    return replace(
        agent,
        name=name,
        spec=agent.spec.model_copy(update={"state": state}),
        formers=(AgentId(agent.project, former),),
    )


def state_path(agent: Deployment, name: str) -> str:
    """Return where the state of the agent is if it has that name."""
    return locate(replace(agent, name=name)).paths.state


def plan(agent: Deployment) -> Plan | None:
    """Plan to give an agent its id; None if nothing at its place has its former id."""
    found = converge.plan(agent)
    return found if found.refusals or any(step.id in _RENAMES for step in found.steps) else None


def rename(agent: Deployment, agreed: Plan) -> str:
    """Give an agent its id as agreed; return a line about the result."""
    (former,) = agent.formers
    with agent_lock(replace(agent, project=former.project, name=former.name)):
        return converge.up(agent, agreed=agreed)
