"""The kinds of agents that Paddock ships, and the loader of files with agents of these kinds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paddock.file import load as loading
from paddock.file.kinds import Kinds
from paddock.file.load import Loaded
from paddock.file.models.whole import AgentSpec, Spec

if TYPE_CHECKING:
    from paddock.kinds.workload import Recipe


def _hermes() -> Recipe[Any]:
    from paddock.kinds.hermes.recipe import Hermes

    return Hermes()


def _litellm() -> Recipe[Any]:
    from paddock.kinds.litellm.recipe import Litellm

    return Litellm()


def _service() -> Recipe[Any]:
    from paddock.kinds.service import Service

    return Service()


# A new kind is a folder beside this file, and an entry here.
KINDS: Final[Kinds[Recipe[Any]]] = Kinds(hermes=_hermes, litellm=_litellm, service=_service)


def load(first: Path, *more: Path, sets: Sequence[str] = ()) -> Loaded:
    """Load a file with agents of these kinds; see ``paddock.file.load``."""
    return loading.load(first, *more, sets=sets, kinds=KINDS)


def parse(text: str, name: str) -> Spec:
    """Return the spec in a YAML text with agents of these kinds; see ``paddock.file.load``."""
    return loading.parse(text, name, KINDS)


def agent_from(data: Any) -> AgentSpec:
    """Return the agent that a mapping describes, as an instance of its kind's model."""
    return KINDS.agent_from(data)
