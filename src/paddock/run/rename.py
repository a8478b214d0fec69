"""Moving an agent to the project of the file: what it has in another project gets its id, and `up` does the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paddock.errors import BadInput
from paddock.plan.step import Plan
from paddock.run import verbs
from paddock.run.deployment import Deployment
from paddock.spec.agent_id import AgentId

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


def plan(agent: Deployment, project: str) -> Plan | None:
    """Plan to move an agent from another project; None if it is not there."""
    found = verbs.plan(from_project(agent, project))
    return found if found.refusals or any(step.id in _RENAMES for step in found.steps) else None


def rename(agent: Deployment, project: str, agreed: Plan) -> str:
    """Move an agent from another project as agreed; return a line about the result."""
    return verbs.up(from_project(agent, project), agreed=agreed)
