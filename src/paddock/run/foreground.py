"""Agents that run only while a person keeps `paddock run` open."""

from __future__ import annotations

from paddock.errors import BadInput
from paddock.recipes.workload import Paths
from paddock.run import verbs
from paddock.run.deployment import Deployment
from paddock.run.resolve import locate


def prepare(agent: Deployment) -> Paths:
    """Bring an agent up so that it can be started; return its paths."""
    located = locate(agent)
    if not located.runtime.foreground:
        raise BadInput(f"{agent.name} does not have `runtime: process`", hint="start it with `paddock up`")
    verbs.up(agent)
    return located.paths
