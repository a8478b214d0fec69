"""Machines on paper: what Paddock did inside each machine is remembered, and nothing is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from paddock.channels import Guest
from paddock.core.observe import Observation
from paddock.core.resolve import Located, Resolved
from paddock.plan.actions import (
    AgentAction,
    ApplyBundle,
    AwaitAnswer,
    CloseAccount,
    CreateContainer,
    InstallCode,
    InstallPackages,
    StartAgent,
    StopAgent,
)
from paddock.plan.agent import AgentSeen
from paddock.plan.container import NOTHING_YET, ContainerSeen

Remembered = (
    InstallPackages | InstallCode | ApplyBundle | AwaitAnswer | CloseAccount | CreateContainer | StartAgent | StopAgent
)


class PaperSide:
    """A machine side without machines. ``inside`` holds what each machine would report, by the name of its guest."""

    def __init__(self, inside: dict[str, AgentSeen]) -> None:
        self.inside = inside
        self.healthy = True

    def look(self, agent: Located, guest: Guest, patience: float = 0.0) -> AgentSeen:
        # The engine of a container is there, and has no container yet.
        return self.inside.get(guest.name, AgentSeen(container=NOTHING_YET))

    def is_healthy(self, agent: Resolved, seen: Observation) -> bool:
        return self.healthy

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        if not isinstance(action, Remembered):
            return
        name = reach().name
        self.inside[name] = _after(agent, action, self.inside.get(name, AgentSeen(container=NOTHING_YET)))


def _after(agent: Located, action: Remembered, seen: AgentSeen) -> AgentSeen:
    """Return what the machine reports after an action."""
    match action:
        case InstallPackages(packages):
            return replace(seen, packages=seen.packages | set(packages))
        case InstallCode(tree):
            return replace(seen, trees=seen.trees | {tree})
        case AwaitAnswer():
            return replace(seen, answered=seen.bundle_id)
        case ApplyBundle(bundle_id):
            assert isinstance(agent, Resolved)
            units = {f"paddock-{agent.name}.main.service": "active"}
            digest = agent.known_secrets.digest
            seen = replace(seen, packages=seen.packages | set(agent.packages))  # which a template may have brought
            changed = replace(seen, bundle_id=bundle_id, secrets=digest, state_of=agent.name, units=units)
            return replace(changed, account_open=())
        case CloseAccount():
            return replace(seen, account_open=())
        case StartAgent() | StopAgent():
            state = "active" if isinstance(action, StartAgent) else "inactive"
            return replace(seen, units=dict.fromkeys(seen.units, state))
        case CreateContainer():
            assert isinstance(agent, Resolved)
            want = agent.want().container
            assert want
            return replace(seen, container=ContainerSeen("up", "overlay", frozenset({want.image}), want.identity))
