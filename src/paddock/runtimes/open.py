"""Choose the runtime of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paddock.file.agent_id import AgentId
from paddock.file.models.whole import AgentSpec, RuntimeName
from paddock.runtimes.contract import Runtime


def runtime_for(
    agent: AgentId, spec: AgentSpec, folder: Path, home: str | None, formers: Sequence[AgentId] = ()
) -> Runtime:
    """Return the runtime that the file chooses for an agent.

    ``folder`` is the folder of the file. ``home`` is the home of the account that the agent runs in without root.
    ``formers`` are ids under which the agent may be deployed so far.
    """
    match spec.runtime:
        case RuntimeName.SYSTEMD:
            from paddock.runtimes.systemd.runtime import Systemd

            return Systemd(agent, spec, home, formers=formers)
        case RuntimeName.PROCESS:
            from paddock.runtimes.process.runtime import ForegroundProcess

            return ForegroundProcess(agent, spec, formers)
        case RuntimeName.DOCKER | RuntimeName.PODMAN:
            from paddock.runtimes.engine.runtime import Engine

            return Engine(agent, spec, folder, home, formers)
