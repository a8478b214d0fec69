"""Begin to connect to an agent's machine as soon as the file is read."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext

from paddock.guests import early
from paddock.spec.agent_id import AgentId
from paddock.spec.load import Loaded


def connecting(loaded: Loaded, only: Collection[str]) -> AbstractContextManager[None]:
    """Connect to the machine of the only agent of a run, if it is on Proxmox and was reached before.

    With several agents, the connections would take the processor from what they are to speed up.
    """
    chosen = loaded.chosen(only)
    if len(chosen) != 1:
        return nullcontext()
    [(name, agent)] = chosen.items()
    node = loaded.spec.places[agent.place].on_node(agent.machine.node).proxmox
    if node is None:
        return nullcontext()
    return early.connecting(f"{node.identity} {AgentId(loaded.spec.project, name)}")
