"""Where an agent works, and the texts it finds there."""

from __future__ import annotations

from paddock.recipes.workload import Paths, StateFile
from paddock.spec.models import AgentSpec


def working_directory(agent: AgentSpec, paths: Paths) -> str:
    """Return the absolute path of where the agent works."""
    directory = agent.working_directory
    return directory if directory.startswith("/") else f"{paths.home}/{directory}"


def beyond_home(agent: AgentSpec, paths: Paths) -> tuple[str, ...]:
    """Return the directories outside of its home that the agent writes to."""
    directory = working_directory(agent, paths)
    return () if f"{directory}/".startswith(f"{paths.home}/") else (directory,)


def documents(agent: AgentSpec) -> tuple[StateFile, ...]:
    """Return the texts of the file: bare names in the working directory, others below the home."""
    return tuple(
        StateFile(name if "/" in name else f"{agent.working_directory}/{name}", document.text or "")
        for name, document in agent.documents.items()
    )
