"""The agents of a file, each in its place, and streams that become their state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, Self

from paddock.backups.contract import Backup, Backups
from paddock.base.frozen import frozen
from paddock.channels import Guest
from paddock.core.standin import StandIn
from paddock.file.agent_id import AgentId
from paddock.file.load import Loaded
from paddock.file.models.whole import AgentSpec, NotifySpec, neighbours
from paddock.file.referenced import inlined
from paddock.kinds.workload import Recipe
from paddock.places.contract import AnyPlace
from paddock.plan.actions import AgentAction
from paddock.plan.agent import AgentSeen
from paddock.plan.version import Upgrade
from paddock.show.reporter import AgentReporter, Reporter

if TYPE_CHECKING:
    from paddock.core.observe import Observation
    from paddock.core.resolve import Located, Resolved


SPARE: Final = 64 << 20  # bytes that a stream may exceed its size by, because not all of it is counted


class Origin(Protocol):
    """An install that exists without Paddock, and that a state is imported from."""

    @property
    def record(self) -> Mapping[str, str]:
        """The facts about it that the agent's machine keeps."""
        ...

    def retire(self) -> None:
        """Stop it, and keep it from starting."""
        ...


@frozen
class Incoming:
    """A stream, from wherever it comes."""

    name: str  # in titles of steps, such as "backup 2026-11-16T02-02-12Z"
    size: int | None  # of its files, where it is known; a much larger stream is refused
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    length: int | None = None  # of the stream, where it is known; files with holes are shorter in it
    of: Mapping[str, str] = field(default_factory=dict)  # facts that its manifest must have, such as `agent`
    manifest: str | None = None  # the SHA-256 of its manifest, if that was signed
    origin: Origin | None = None  # of an import; such a state never replaces another one
    expects: Sequence[str] = ()  # paths that it must have
    discards: bool = False  # a person gives up the state that it replaces, which is not saved then
    aside: Sequence[str] = ()  # patterns of files that are kept out of the agent's home

    @classmethod
    def of_backup(cls, agent: Deployment, destination: Backups, backup: Backup) -> Self:
        """Return a backup of an agent as the stream of a state."""
        return cls(
            f"backup {backup.name}",
            backup.about.get("bytes"),  # not known of an archive that the place made
            lambda: destination.read(backup),
            length=backup.about.get("length"),
            of={"agent": str(agent.id), "kind": agent.spec.kind},
            manifest=backup.proof.manifest if backup.proof else None,
        )


class MachineSide(Protocol):
    """Reads and changes the inside of machines. ``on_machine.OnMachine`` does it through guests."""

    def look(self, agent: Located, guest: Guest, patience: float = 0.0) -> AgentSeen:
        """Read the agent's part of the machine; a machine that does not answer is retried for ``patience`` seconds."""
        ...

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        """Carry out one action. ``reach`` returns the channel to the machine as earlier steps left it."""
        ...

    def is_healthy(self, agent: Resolved, seen: Observation) -> bool:
        """Run the quick checks of ``verify``."""
        ...


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One agent of a file in its place, as declared. Nothing was read from the world yet."""

    project: str  # of the file
    name: str
    spec: AgentSpec
    folder: Path  # of the file
    place: AnyPlace
    recipe: Recipe[Any]  # of its kind
    reporter: AgentReporter
    model_gateway: Deployment | None = None  # the agent that serves its models
    # Former ids of the agent. Units, containers and states with one of them become this agent's.
    formers: tuple[AgentId, ...] = ()
    beside_others: bool = False  # agents of this name in other projects may be at the place too
    others: Collection[str] = ()  # names of the other agents of the file
    neighbours: Sequence[str] = ()  # hosts of the file's places and of its other agents
    incoming: Incoming | None = None  # a stream that becomes its state
    notify: NotifySpec | None = None  # who hears of failures
    rollback: Upgrade | None = None  # the upgrade that it goes back from
    copy_of: Deployment | None = None  # the agent that this one is a harmless copy of
    throwaway: bool = False  # it is removed at the end of the run, and no file has it
    stand_in: StandIn | None = None  # serves its model on its machine
    machine_side: MachineSide = field(repr=False, compare=False)  # reads and changes its machine

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
