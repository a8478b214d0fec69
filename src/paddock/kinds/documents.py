"""The working directory and the documents of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.file.models.whole import AgentSpec

if TYPE_CHECKING:
    from paddock.kinds.workload import Paths, StateFile


def working_directory(agent: AgentSpec, paths: Paths) -> str:
    """Return the absolute path of the agent's working directory."""
    directory = agent.working_directory
    return directory if directory.startswith("/") else f"{paths.home}/{directory}"


def beyond_home(agent: AgentSpec, paths: Paths) -> tuple[str, ...]:
    """Return the directories outside of its home that the agent may write to."""
    directory = working_directory(agent, paths)
    return () if f"{directory}/".startswith(f"{paths.home}/") else (directory,)


def place_of(agent: AgentSpec, document: str) -> str:
    """Return the path of a document: bare names are in the working directory, paths below the home."""
    return document if "/" in document else f"{agent.working_directory}/{document}"


def documents(agent: AgentSpec) -> tuple[StateFile, ...]:
    """Return the documents as files of the state."""
    from paddock.kinds.workload import StateFile

    return tuple(StateFile(place_of(agent, name), document.text or "") for name, document in agent.documents.items())
