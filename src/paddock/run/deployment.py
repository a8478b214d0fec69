"""The agents of a file, each in its place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from paddock.errors import BadInput
from paddock.places import AnyPlace, place_for
from paddock.plan.upgrades import Upgrade
from paddock.recipes.workload import Recipe
from paddock.run.incoming import Incoming
from paddock.run.reporter import AgentReporter, Reporter
from paddock.run.standing import StandIn
from paddock.spec.agent_id import AgentId
from paddock.spec.files import inlined
from paddock.spec.load import Loaded
from paddock.spec.models import AgentSpec
from paddock.spec.neighbours import neighbours
from paddock.spec.notify import NotifySpec

if TYPE_CHECKING:
    from paddock.run.machine_side import MachineSide


def _on_machine() -> MachineSide:
    # Imported late, because it works on agents that are resolved from deployments.
    from paddock.run.on_machine import OnMachine

    return OnMachine()


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One agent of a file in its place, as declared. Nothing was read from the world yet."""

    project: str  # of the file
    name: str
    spec: AgentSpec
    folder: Path  # of the file
    place: AnyPlace
    recipe: Recipe[Any]  # what its kind knows
    reporter: AgentReporter
    model_gateway: Deployment | None = None  # the agent that serves its models
    # Ids under which the agent may be deployed so far; what has one of them becomes this agent's.
    formers: tuple[AgentId, ...] = ()
    beside_others: bool = False  # agents of this name in other projects may be at the place too
    others: Collection[str] = ()  # names of the other agents of the file
    neighbours: Sequence[str] = ()  # hosts of the file's places and of its other agents
    incoming: Incoming | None = None  # what is to become its state
    notify: NotifySpec | None = None  # who hears of failures
    rollback: Upgrade | None = None  # the upgrade that it goes back from
    copy_of: Deployment | None = None  # the agent that this one is a harmless copy of
    throwaway: bool = False  # it is removed at the end of the run, and no file has it
    stand_in: StandIn | None = None  # serves its model on its machine
    machine_side: MachineSide = field(default_factory=_on_machine, repr=False, compare=False)

    @classmethod
    def declared(
        cls, name: str, loaded: Loaded, place: AnyPlace, reporter: Reporter, model_gateway: Deployment | None = None
    ) -> Self:
        """Return an agent of a loaded file."""
        return cls(
            project=loaded.spec.project,
            name=name,
            spec=inlined(loaded.spec.agents[name], loaded.folder),
            folder=loaded.folder,
            place=place,
            recipe=loaded.kinds[loaded.spec.agents[name].kind],
            reporter=reporter.of(name),
            model_gateway=model_gateway,
            formers=(AgentId("", name),),
            others=[each for each in loaded.spec.agents if each != name],
            neighbours=neighbours(name, loaded.spec),
            notify=loaded.spec.notify,
        )

    @property
    def id(self) -> AgentId:
        """The agent among all agents of its place."""
        return AgentId(self.project, self.name)

    def beside_namesakes(self) -> Self:
        """Return the agent as another one than all agents of its name in other projects, or in none."""
        return replace(self, formers=(), beside_others=True)

    @property
    def where(self) -> str:
        """The name of its place, with the node if the file names another one."""
        node = self.spec.machine.node
        return f"{self.spec.place} ({node})" if node else self.spec.place


@contextmanager
def deployments(
    loaded: Loaded, only: list[str], reporter: Reporter, *, patient: bool = True
) -> Iterator[list[Deployment]]:
    """Yield the named agents of a file, or all enabled ones: at least one. Places are shared, and closed at the end."""
    unknown = sorted(set(only) - loaded.spec.agents.keys())
    if unknown:
        raise BadInput(f"there is no agent {', '.join(unknown)} in {loaded.path.name}")
    agents = loaded.spec.agents
    chosen = [*loaded.chosen(only)]
    if not chosen:
        raise BadInput(
            f"no agent of {loaded.path.name} is enabled", hint="remove `enabled: false`, or name an agent with --only"
        )
    needed = dict.fromkeys([*chosen, *(behind for name in chosen if (behind := gateway_of(agents[name])))])
    places: dict[tuple[str, str | None], AnyPlace] = {}
    try:
        for agent in (agents[name] for name in needed):
            if _where(agent) not in places:
                spec = loaded.spec.places[agent.place].on_node(agent.machine.node)
                places[_where(agent)] = place_for(agent.place, spec, loaded.folder, reporter.say, patient=patient)
        found: dict[str, Deployment] = {}
        gateways_first = sorted(needed, key=lambda name: gateway_of(agents[name]) is not None)
        for name in gateways_first:
            behind = gateway_of(agents[name])
            place = places[_where(agents[name])]
            found[name] = Deployment.declared(name, loaded, place, reporter, found[behind] if behind else None)
        yield [found[name] for name in chosen]
    finally:
        for place in places.values():
            place.close()


def gateway_of(agent: AgentSpec) -> str | None:
    """Return the name of the agent that serves this agent's models."""
    return agent.model_gateway


def _where(agent: AgentSpec) -> tuple[str, str | None]:
    """Return what identifies the agent's place. Each node of a cluster counts as a place of its own."""
    return agent.place, agent.machine.node
