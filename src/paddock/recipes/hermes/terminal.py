"""Where the agent's commands run: ``settings.terminal.cwd``, which also decides which AGENTS.md Hermes reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.recipes.hermes import documents
from paddock.recipes.hermes.spec import HermesSpec
from paddock.spec.kinds import Mistake

# For these Hermes would use the home of the agent's account, whatever the working directory of its process is.
_PLACEHOLDERS: Final = ("", ".", "auto", "cwd")


def with_directory(settings: Mapping[str, Any], directory: str) -> dict[str, Any]:
    """Return the settings with the working directory as ``terminal.cwd``, unless they have a path there.

    Commands that run in a sandbox or on another machine do not have the working directory.
    """
    terminal = settings.get("terminal") or {}
    if not isinstance(terminal, dict) or not _is_local(terminal) or not _is_placeholder(terminal):
        return dict(settings)
    return {**settings, "terminal": {**terminal, "cwd": directory}}


def mistakes(agent: HermesSpec, settings: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield paths that Hermes would not find, and paths where it would not find a document."""
    terminal = settings.get("terminal")
    if not isinstance(terminal, dict) or _is_placeholder(terminal) or not _is_local(terminal):
        return
    cwd, at = terminal["cwd"], ("terminal", "cwd")
    if not isinstance(cwd, str):
        return  # the rule about types tells
    if not cwd.startswith(("/", "~/", "${")):
        yield at, "must be an absolute path; leave it out for the agent's working_directory"
    elif (name := documents.project_file(agent)) and cwd != agent.working_directory:
        yield at, f"Hermes would read {name} there, not in working_directory; write the path as working_directory"


def _is_placeholder(terminal: Mapping[str, Any]) -> bool:
    cwd = terminal.get("cwd")
    return cwd is None or (isinstance(cwd, str) and cwd.strip() in _PLACEHOLDERS)


def _is_local(terminal: Mapping[str, Any]) -> bool:
    """Whether commands run on the agent's machine, and not in a sandbox or on another machine."""
    return terminal.get("backend") in (None, "", "local")
