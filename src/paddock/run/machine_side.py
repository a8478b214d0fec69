"""The contract between a run and what happens on an agent's machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from paddock.guests import Guest
from paddock.plan.actions import AgentAction
from paddock.plan.agent import AgentSeen

if TYPE_CHECKING:
    from paddock.run.observe import Observation
    from paddock.run.resolve import Located, Resolved


class MachineSide(Protocol):
    """Reads and changes the inside of machines. ``on_machine.OnMachine`` does it through guests."""

    def look(self, agent: Located, guest: Guest, patience: float = 0.0) -> AgentSeen:
        """Read the agent's part of the machine; a machine that does not answer is retried for ``patience`` seconds."""
        ...

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        """Carry out one action. ``reach`` returns the channel to the machine as earlier steps left it."""
        ...

    def is_healthy(self, agent: Resolved, seen: Observation) -> bool:
        """Run the quick checks of ``verify``."""
        ...
