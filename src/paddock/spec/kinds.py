"""Kinds of agents for the loader of the file: the model of a kind's keys, and the rules that a model cannot check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar, Union, get_args

from pydantic import Field, TypeAdapter, create_model

from paddock.spec.agent import AgentSpec
from paddock.spec.fields import Name
from paddock.spec.models import Spec
from paddock.spec.place import PlaceSpec
from paddock.spec.tree import Location, Tree

Mistake = tuple[Location, str]  # location in the file, and message


class AgentKind(Protocol):
    """A kind of agent. Every recipe is one; the loader needs only these members."""

    @property
    def model(self) -> type[AgentSpec]:
        """The model of an agent of this kind; the literal type of its field ``kind`` is the kind's name."""
        ...

    def validate(self, name: str, agent: Any, file: FileView) -> Iterable[Mistake]:
        """Return the mistakes that the model does not find, with locations relative to the agent."""
        ...

    def unready(self, agent: Any, folder: Path) -> Iterable[Mistake]:
        """Return what else `up` needs and another verb creates, such as a lock, with locations relative to the agent.

        The agent has the contents of the files that it names. Relative paths start at the folder.
        """
        ...


Any_kind = TypeVar("Any_kind", bound=AgentKind, covariant=True)


class Kinds(Mapping[str, Any_kind]):
    """The kinds of agents that a file may have, by name."""

    def __init__(self, *kinds: Any_kind) -> None:
        self._kinds = {_name(kind.model): kind for kind in kinds}

    def __getitem__(self, name: str) -> Any_kind:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    @cached_property
    def models(self) -> Mapping[str, type[AgentSpec]]:
        return {name: kind.model for name, kind in self.items()}

    @cached_property
    def file(self) -> type[Spec]:
        """The model of a whole file with agents of these kinds."""
        agents: Any = dict.__class_getitem__((Name, self._any_agent))
        described = Field(description=Spec.model_fields["agents"].description)
        return create_model("Spec", __base__=Spec, __doc__=Spec.__doc__, agents=(agents, described))

    def agent_from(self, data: Any) -> AgentSpec:
        """Return the agent that a mapping describes, as an instance of its kind's model."""
        return self._adapter.validate_python(data)

    def model_of(self, agent: str, tree: Tree) -> type[AgentSpec]:
        """Return the model of an agent in a tree; ``AgentSpec`` if its kind is unknown."""
        return self.models.get(str(tree.at(("agents", agent, "kind"))), AgentSpec)

    def expanded(self, agent: str, tree: Tree) -> Mapping[str, str | None]:
        """Return ``AgentSpec.expanded`` of an agent in a tree; that of all kinds together if its kind is unknown."""
        model = self.model_of(agent, tree)
        if model is not AgentSpec:
            return model.expanded
        return {key: remedy for each in self.models.values() for key, remedy in each.expanded.items()}

    @cached_property
    def _adapter(self) -> TypeAdapter[AgentSpec]:
        return TypeAdapter(self._any_agent)

    @cached_property
    def _any_agent(self) -> Any:
        return Annotated[Union[tuple(self.models.values())], Field(discriminator="kind")]  # noqa: UP007


@dataclass(frozen=True)
class FileView:
    """The valid places and agents of the file, for the rules of a kind."""

    places: Mapping[str, PlaceSpec]
    agents: Mapping[str, AgentSpec]
    kinds: Kinds[AgentKind]
    folder: Path | None  # where relative paths start; None: other files are not read

    def host(self, agent: AgentSpec) -> str | None:
        """Return a name for the host of an agent, equal for agents on one host; None if its place is not a host."""
        place = self.places.get(agent.place)
        return place.host.machine if place is not None and place.host is not None else None


def _name(model: type[AgentSpec]) -> str:
    return str(get_args(model.model_fields["kind"].annotation)[0])
