"""The default answers of a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from paddock.file.kinds import FileView, Mistake
from paddock.file.models.whole import AgentSpec
from paddock.kinds.keeping import Keeping, Traces

if TYPE_CHECKING:
    from paddock.kinds.checks import Check
    from paddock.kinds.code import CodeTree, Distribution
    from paddock.kinds.conversation import Conversation
    from paddock.kinds.endpoints import ModelServer, Offer
    from paddock.kinds.workload import Paths

OwnSpec = TypeVar("OwnSpec", bound=AgentSpec)


class BaseRecipe(Generic[OwnSpec]):
    """A recipe with defaults for a program that Debian packages install.

    A kind adds ``model``, ``workload`` and ``probes``, and overrides what differs.
    """

    def validate(self, name: str, agent: OwnSpec, file: FileView) -> Iterable[Mistake]:
        return ()

    def unready(self, agent: OwnSpec, folder: Path) -> Iterable[Mistake]:
        return ()

    def packages(self, agent: OwnSpec) -> Sequence[str]:
        return tuple(agent.packages)

    def recommended_packages(self, agent: OwnSpec) -> Sequence[str]:
        return ()

    def distribution(self, agent: OwnSpec, folder: Path) -> Distribution | None:
        return None

    def code(self, agent: OwnSpec, folder: Path) -> CodeTree | None:
        return None

    def versions(self, agent: OwnSpec, folder: Path) -> Sequence[str]:
        return ()

    def conversation(self, agent: OwnSpec) -> Conversation | None:
        return None

    def checks(self, agent: OwnSpec, name: str, paths: Paths) -> Sequence[Check]:
        return ()

    def traces(self, agent: OwnSpec) -> Traces:
        return Traces()

    def keeping(self, agent: OwnSpec) -> Keeping:
        return Keeping()

    def harmless(self, agent: OwnSpec, model: str | None, ports: Mapping[str, int]) -> AgentSpec | None:
        return None

    def offer(self, agent: OwnSpec) -> Offer | None:
        return None

    def using(self, agent: OwnSpec, server: ModelServer) -> OwnSpec:
        return agent
