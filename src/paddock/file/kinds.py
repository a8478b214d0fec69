"""Kinds of agents for the loader of the file: the model of a kind's keys, and the rules that a model cannot check."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar, Union, get_args

from pydantic import Field, TypeAdapter, create_model

from paddock.base.frozen import frozen
from paddock.file.models.agent import AgentSpec
from paddock.file.models.fields import Name
from paddock.file.models.place import PLACES, PlaceSpec
from paddock.file.models.whole import Spec
from paddock.file.tree import Location, Tree

Mistake = tuple[Location, str]  # location in the file, and message


class AgentKind(Protocol):
    """A kind of agent. Every recipe is one; the loader needs only these members."""

    @property
    def model(self) -> type[AgentSpec]:
        """The model of an agent of this kind; the literal type of its field ``kind`` is the kind's name."""

    def validate(self, name: str, agent: Any, file: FileView) -> Iterable[Mistake]:
        """Return the mistakes that the model does not find, with locations relative to the agent."""

    def unready(self, agent: Any, folder: Path) -> Iterable[Mistake]:
        """Return mistakes for missing files that `up` needs and another verb creates, such as a lock.

        The agent has the contents of the files that it names. Relative paths start at the folder.
        """


Any_kind = TypeVar("Any_kind", bound=AgentKind, covariant=True)


class Kinds(Mapping[str, Any_kind]):
    """The kinds of agents that a file may have, by name.

    Each is given as itself, or by its name as a function that imports it: most files have agents of one kind.
    """

    def __init__(self, *kinds: Any_kind, **imported: Callable[[], Any_kind]) -> None:
        self._kinds = {_name(kind.model): kind for kind in kinds}
        self._imported = imported
        self._places: Collection[str] = PLACES.keys()
        self._some: dict[tuple[str, ...], Kinds[Any_kind]] = {}

    def __getitem__(self, name: str) -> Any_kind:
        if name not in self._kinds:
            self._kinds[name] = self._imported[name]()
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._imported, *self._kinds]))

    def __len__(self) -> int:
        return len(self._imported.keys() | self._kinds.keys())

    def __contains__(self, name: object) -> bool:
        return name in self._imported or name in self._kinds

    @property
    def models(self) -> Mapping[str, type[AgentSpec]]:
        return _Models(self)

    @cached_property
    def file(self) -> type[Spec]:
        """The model of a whole file with agents of these kinds."""
        return _file_with(self._any_agent, PlaceSpec.complete(self._places))

    def named_in(self, tree: Tree) -> Kinds[Any_kind]:
        """Return the kinds that a valid file uses, with its kinds of places; all, if it names another one."""
        named = {str(tree.at(("agents", name, "kind"))) for name in _keys(tree, "agents")}
        used = tuple(name for name in self if name in named)
        if not used or len(used) < len(named):
            return self
        places = {key for name in _keys(tree, "places") for key in _keys(tree, "places", name)} & PLACES.keys()
        which = (*used, *sorted(places))
        if which not in self._some:  # equal files are instances of one model
            self._some[which] = Kinds(*(self[name] for name in used))
            self._some[which]._places = places
        return self._some[which]

    def agent_from(self, data: Any) -> AgentSpec:
        """Return the agent that a mapping describes, as an instance of its kind's model."""
        return self._adapter.validate_python(data)

    def model_of(self, agent: str, tree: Tree) -> type[AgentSpec]:
        """Return the model of an agent in a tree; ``AgentSpec`` if its kind is unknown."""
        return self.models.get(str(tree.at(("agents", agent, "kind"))), AgentSpec)

    def expanded(self, agent: str, tree: Tree) -> Mapping[str, str | None]:
        """Return ``AgentSpec.expanded`` of an agent in a tree; if its kind is unknown, of all kinds together."""
        model = self.model_of(agent, tree)
        if model is not AgentSpec:
            return model.expanded
        return {key: remedy for each in self.models.values() for key, remedy in each.expanded.items()}

    @cached_property
    def _adapter(self) -> TypeAdapter[AgentSpec]:
        return TypeAdapter(self._any_agent)

    @cached_property
    def _any_agent(self) -> Any:
        models = tuple(self.models.values())
        return Annotated[Union[models], Field(discriminator="kind")] if len(models) > 1 else models[0]  # noqa: UP007


@frozen
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


class _Models(Mapping[str, type[AgentSpec]]):
    """The models of kinds, by name. A kind is imported when its model is asked for."""

    def __init__(self, kinds: Kinds[AgentKind]) -> None:
        self._kinds = kinds

    def __getitem__(self, name: str) -> type[AgentSpec]:
        return self._kinds[name].model

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


def _keys(tree: Tree, *location: str) -> list[str]:
    data = tree.at(location)
    return list(data) if isinstance(data, dict) else []


def _file_with(agent: Any, place: type[PlaceSpec]) -> type[Spec]:
    types = {"places": place, "agents": agent}
    fields: dict[str, Any] = {
        key: (dict.__class_getitem__((Name, each)), Field(description=Spec.model_fields[key].description))
        for key, each in types.items()
    }
    return create_model("Spec", __base__=Spec, __doc__=Spec.__doc__, **fields)


def _name(model: type[AgentSpec]) -> str:
    return str(get_args(model.model_fields["kind"].annotation)[0])
