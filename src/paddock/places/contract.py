"""Where machines are. A place knows machines and volumes, and nothing about the agents on them.

``Place`` is what every place does. ``Templates``, ``Adoption``, ``Archives``, ``Doctor`` and ``Permissions`` are
capabilities: a place offers an object for each one it has, and None for the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from paddock.base.frozen import frozen
from paddock.channels import Guest
from paddock.file.agent_id import AgentId
from paddock.file.models.quantities import Size
from paddock.file.models.whole import AgentSpec, MachineSpec
from paddock.plan.actions import Action, PlaceAction
from paddock.plan.step import AdoptTarget, Goal, MachinePlan, Refusal


class PlaceSeen:
    """The observation of a place, which only that place can read."""


Observed = TypeVar("Observed")  # the place's own observation
Seen = TypeVar("Seen", contravariant=True)  # the same, where a contract only takes it as an argument
Own = TypeVar("Own", contravariant=True)  # the place's own actions
Got = Mapping[str, str]  # values that earlier steps of a run found out, by name


@frozen
class Traits:
    """Facts about a place that never change during a run."""

    identity: str  # the address of the place; the same for all files that name it. One place may have several.
    mounts_state: bool  # the state is a volume, which must be mounted before anything may write to it
    keeps_machine: bool  # the machine existed before Paddock and is never destroyed


@frozen
class TemplateWant:
    """A template that a machine should be made from, named by its contents."""

    id: str
    label: str


@frozen
class TemplateInfo:
    """A template as it is listed."""

    number: int  # the place's number of it
    label: str
    template: str
    epoch: int
    made: str
    machines: Sequence[int]  # the numbers of machines made from it
    prunable: bool
    status: str = "finished"
    finished: bool = True  # False: a builder, which is still being built or was left by an interrupted run


@frozen
class CacheWant:
    """A rebuildable cache volume that outlives the machine."""

    path: str
    size: Size


@frozen
class MachineWant:
    """The machine and the state that an agent needs."""

    id: AgentId
    spec: AgentSpec
    state_path: str  # where the runtime expects the state
    template: TemplateWant | None = None
    cache: CacheWant | None = None
    # Former ids of the agent. Containers and volumes with one of them become this agent's.
    formers: tuple[AgentId, ...] = ()
    beside_others: bool = False  # agents of this name in other projects may be at the place too
    throwaway: bool = False  # no file has this agent

    @property
    def agent(self) -> str:
        """The agent's name in its file."""
        return self.id.name


@frozen
class Machine:
    """An agent's machine as it was observed."""

    name: str
    status: str  # running, stopped, absent
    address: str | None
    state: str  # where the state is, in the place's words
    uptime: int = 0  # seconds
    starting: bool = False  # it runs, and its ssh server may not answer yet
    made_from: str = "-"
    hostname: str = "-"
    adopted: bool = False  # somebody else created it, so its root disk may hold files of the agent
    owner: str = "-"  # uid and gid of the agent, as the host sees them
    number: int | None = None  # the machine's number, where the place numbers machines
    notes: str = ""  # texts at the place that everyone with access to it can read
    former: AgentId | None = None  # the id of another project, or of none, that it has so far


@frozen
class Remnant:
    """Something of Paddock at a place that no agent of the file uses."""

    name: str  # of the agent, or of the thing
    machine: str | None  # None: the machine is not the agent's own
    status: str  # running, stopped, installed, absent
    state: str  # where its state is, in the place's words
    is_agent: bool = True


@frozen
class Finding:
    """One result of an examination."""

    subject: str
    ok: bool
    evidence: str
    hint: str | None = None  # what to do when it is not ok
    warns: bool = False  # nothing is missing, but a person should know it


@frozen
class Description:
    """An existing machine or volume, in keys of the file. Settings that the file has no key for are left out."""

    said: Mapping[str, Mapping[str, Any] | Sequence[Any]] = field(default_factory=dict)  # machine, state, mounts
    left_out: Sequence[str] = ()


@frozen
class Archive:
    """A backup that the place made of the volume with an agent's state."""

    name: str  # the place's own name of it
    made: datetime
    size: int  # bytes that it takes
    about: Mapping[str, str]  # agent, kind and version at that time


class Templates(Protocol[Seen]):
    """Templates that machines are cloned from."""

    def want(self, label: str, contents: str, machine: MachineSpec) -> TemplateWant | None:
        """Return the template for machines with these contents; None if the file switches templates off."""
        ...

    def plan(self, want: MachineWant, seen: Seen, *, rebuild: bool) -> MachinePlan:
        """Plan to build the template if it is missing, or again if ``rebuild``. Pure."""
        ...

    def listed(self, seen: Seen) -> Sequence[TemplateInfo]:
        """Return the observed templates."""
        ...

    def remove(self, info: TemplateInfo, seen: Seen) -> None:
        """Delete an observed template, or the builder of an interrupted run."""
        ...


class Adoption(Protocol[Seen]):
    """Machines and volumes that somebody else created, put under Paddock's management."""

    def describe(self, agent: AgentId, target: AdoptTarget, seen: Seen) -> Description:
        """Describe the target in the words of the file. Pure."""
        ...

    def plan(self, want: MachineWant, target: AdoptTarget, seen: Seen) -> MachinePlan:
        """Plan the adoption; refused if data could be lost. Pure."""
        ...

    def visit(self, want: MachineWant, target: AdoptTarget, seen: Seen) -> Guest | None:
        """Return a channel to a machine that is not adopted yet; None if there is no machine to look at."""
        ...


class Archives(Protocol[Seen]):
    """Backups that the place makes itself. A throwaway machine, the reader, mounts a restored copy of the volume."""

    def check(self, want: MachineWant) -> None:
        """Raise unless archives can be written and read."""
        ...

    def plan_save(self, want: MachineWant, about: Mapping[str, str], seen: Seen) -> MachinePlan:
        """Plan to make an archive of the state, which nobody may write to meanwhile. Pure."""
        ...

    def listed(self, want: MachineWant) -> Sequence[Archive]:
        """Read the finished archives of an agent, the oldest first."""
        ...

    def remove(self, want: MachineWant, archives: Sequence[Archive]) -> None:
        """Delete archives, and unfinished archives of interrupted backups of the agent."""
        ...

    def plan_read(self, want: MachineWant, archive: Archive, seen: Seen) -> MachinePlan:
        """Plan a reader that has the state of an archive at the path where the agent has its own."""
        ...

    def reader(self, want: MachineWant, seen: Seen) -> Guest | None:
        """Return the channel to the reader of this run."""
        ...

    def plan_clear(self, want: MachineWant, seen: Seen) -> MachinePlan:
        """Plan to remove the readers of this run and of interrupted ones, with their copies of the state. Pure."""
        ...


class Doctor(Protocol):
    """Examines whether a place can do what a file needs."""

    def examine(self, wants: Sequence[MachineWant]) -> tuple[Sequence[Finding], Sequence[str]]:
        """Return findings, and commands for a person that remedy them."""
        ...


class Permissions(Protocol[Seen]):
    """What the credentials of a place allow."""

    def hidden_machines(self, want: MachineWant, seen: Seen) -> Sequence[Refusal]:
        """Return reasons why an agent without a visible machine may have one that the credentials cannot see."""
        ...

    def missing(self, actions: Sequence[Action], seen: Seen) -> Sequence[str]:
        """Return descriptions of the privileges that these actions need and the credentials lack."""
        ...


class Place(Protocol[Observed, Own]):
    """Machines and volumes somewhere."""

    @property
    def traits(self) -> Traits: ...

    @property
    def templates(self) -> Templates[Observed] | None: ...

    @property
    def adoption(self) -> Adoption[Observed] | None: ...

    @property
    def archives(self) -> Archives[Observed] | None: ...

    @property
    def doctor(self) -> Doctor | None: ...

    @property
    def permissions(self) -> Permissions[Observed] | None: ...

    def close(self) -> None:
        """Close connections."""
        ...

    def account_home(self) -> str | None:
        """Read the home of the account whose own systemd supervises agents; None where root's systemd does."""
        ...

    def login_keys(self) -> Sequence[str]:
        """Read the public keys of people who may log in as root to the machines of the place."""
        ...

    def observe(self, want: MachineWant | None = None) -> Observed:
        """Read the place, after changes of that agent that are still under way have ended. Changes nothing."""
        ...

    def observed(self, want: MachineWant | None = None) -> Observed | None:
        """Return the observation that the agents of a run share, which is read when it is first asked for.

        None once this run has changed the place, and while a change of that agent is under way. It is for reports, and
        to find out that nothing has to change; steps are planned from ``observe``.
        """
        ...

    def plan(self, goal: Goal, want: MachineWant, seen: Observed) -> MachinePlan:
        """Return the steps to a goal. Pure."""
        ...

    def perform(self, action: Own, seen: Observed, got: Got) -> Got:
        """Carry out an action that was planned from this observation; returns values for later steps.

        Raises ``WorldChanged`` if a machine is no longer the observed one.
        """
        ...

    def guest(self, want: MachineWant, seen: Observed, got: Got) -> Guest | None:
        """Return the channel to the machine, as observed or as earlier steps left it; None if there is none."""
        ...

    def machine(self, want: MachineWant, seen: Observed) -> Machine:
        """Return the observed machine."""
        ...

    def other_run(self, want: MachineWant, seen: Observed) -> str | None:
        """Say what another run did to the machine since it was observed, for a run that lost its connection."""
        ...

    def remnants(self, project: str, agents: Collection[str], seen: Observed) -> Sequence[Remnant]:
        """Return machines and states of the project at the place that belong to none of these agents. Pure."""
        ...

    def verify(self, want: MachineWant, seen: Observed) -> Sequence[Finding]:
        """Return findings about the machine and its state that need no access to the machine. Pure."""
        ...


AnyPlace = Place[PlaceSeen, PlaceAction]
