"""The agents of a file, each in its place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from paddock.places import AnyPlace
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
    machine_side: MachineSide = field(repr=False, compare=False)  # what happens on its machine

    @classmethod
    def declared(
        cls,
        name: str,
        loaded: Loaded,
        place: AnyPlace,
        reporter: Reporter,
        machine_side: MachineSide,
        model_gateway: Deployment | None = None,
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
            machine_side=machine_side,
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


def gateway_of(agent: AgentSpec) -> str | None:
    """Return the name of the agent that serves this agent's models."""
    return agent.model_gateway
