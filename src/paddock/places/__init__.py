"""Where machines are. A place knows machines and volumes, and nothing of what runs in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from paddock.guests import Guest
from paddock.plan.step import Action, Refusal, Risk, Step
from paddock.spec.models import AgentSpec, MachineSpec, PlaceSpec
from paddock.spec.sizes import Size

Seen = TypeVar("Seen")
Got = Mapping[str, str]


@dataclass(frozen=True)
class TemplateWant:
    """A machine with packages and code in it already, named by what goes into it."""

    id: str
    label: str


@dataclass(frozen=True)
class TemplateInfo:
    """A template as people see it."""

    vmid: int
    label: str
    template: str
    epoch: int
    made: str
    machines: Sequence[int]  # made from it
    prunable: bool


@dataclass(frozen=True)
class CacheWant:
    """A volume for what can be made again and is slow to; it outlives machines, but nothing is lost with it."""

    path: str
    size: Size


@dataclass(frozen=True)
class MachineWant:
    """The machine and the state an agent needs, in words every place understands."""

    agent: str
    spec: AgentSpec
    state_path: str  # where the runtime wants the state
    template: TemplateWant | None = None  # what the machine should come with, where the place can do that
    cache: CacheWant | None = None


@dataclass(frozen=True)
class Machine:
    """What can be said of an agent's machine at a glance."""

    name: str
    status: str  # running, stopped, absent
    address: str | None
    state: str  # where the state is, in the place's words
    uptime: int = 0  # seconds
    starting: bool = False  # it runs, and may not let anybody in yet
    made_from: str = "-"
    hostname: str = "-"
    adopted: bool = False  # somebody else made it, and its root disk may hold what nobody knows of
    owner: str = "-"  # uid and gid of the agent where the host keeps its directories


@dataclass(frozen=True)
class Finding:
    """Something that was examined."""

    subject: str
    ok: bool
    evidence: str
    hint: str | None = None  # what to do, of what is not well


@dataclass(frozen=True)
class MachinePlan:
    """A place's part of a plan."""

    steps: Sequence[Step] = ()
    refusals: Sequence[Refusal] = ()
    notes: Sequence[str] = ()
    manual_steps: Sequence[Step] = ()  # those that may wait for a person: all that can be done without comes first
    preinstalled: bool = False  # the machine will be new and come with what the wanted template holds
    adopted: bool = False  # the state was there before Paddock, and may hold files that are to be claimed
    new_cache: bool = False  # an engine that was there will find another volume where it keeps its things

    @property
    def restarts(self) -> bool:
        """Whether a machine that runs goes down on the way, and what is on it with it."""
        return any(step.risk in (Risk.RESTARTS, Risk.PERSON) for step in (*self.steps, *self.manual_steps))


@dataclass(frozen=True)
class AdoptTarget:
    """What a person wants taken into the file's care."""

    vmid: int | None = None  # a machine
    state: str | None = None  # a volume: by the key that machine has it at, or by its name


@dataclass(frozen=True)
class Description:
    """What is there, in the words of the file; what cannot be read, or said there, is left out."""

    said: Mapping[str, Mapping[str, Any] | Sequence[Any]] = field(default_factory=dict)  # machine, state, mounts
    left_out: Sequence[str] = ()


class Place(Protocol, Generic[Seen]):
    """Machines and volumes somewhere."""

    @property
    def mounts_state(self) -> bool:
        """Whether the state is a volume that must be mounted before anything may write to it."""
        ...

    @property
    def keeps_machine(self) -> bool:
        """Whether the machine was there before Paddock and stays when the agent goes."""
        ...

    @property
    def people(self) -> Sequence[str]:
        """Public keys of people who may log in, as root, to the machines the place makes."""
        ...

    @property
    def account_home(self) -> str | None:
        """The home of the account whose own systemd supervises there; None where it is the machine's."""
        ...

    @property
    def identity(self) -> str:
        """What the place is, whatever a file calls it: its address. One place may have several."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...

    def template(self, label: str, contents: str, machine: MachineSpec) -> TemplateWant | None:
        """The template a machine with these contents would come from; None where machines are not made from any."""
        ...

    def observe(self, agent: str | None = None) -> Seen:
        """Read what is there, once nothing of that agent's is in the middle of a change. Changes nothing."""
        ...

    def up(self, want: MachineWant, seen: Seen) -> MachinePlan:
        """The steps to a running machine with its state in place. Pure."""
        ...

    def down(self, want: MachineWant, seen: Seen) -> MachinePlan:
        """The steps to no machine, with the state kept. Pure."""
        ...

    def forget(self, want: MachineWant, seen: Seen) -> MachinePlan:
        """The steps to no state; refused while a machine could use it. Pure."""
        ...

    def doubts(self, want: MachineWant, seen: Seen) -> Sequence[Refusal]:
        """Reasons why an agent that has no machine as far as was seen may have one all the same."""
        ...

    def without_machine(self, want: MachineWant, seen: Seen) -> Seen:
        """What would be seen if the agent's machine were gone. Pure."""
        ...

    def lacking(self, actions: Sequence[Action], seen: Seen) -> Sequence[str]:
        """The privileges that these actions need and that are missing, each in words."""
        ...

    def describe(self, agent: str, target: AdoptTarget, seen: Seen) -> Description:
        """What the wish is about, as the file would say it. Pure."""
        ...

    def adopt(self, want: MachineWant, target: AdoptTarget, seen: Seen) -> MachinePlan:
        """The steps to have it in the file's care; refused where something could be lost. Pure."""
        ...

    def visit(self, want: MachineWant, target: AdoptTarget, seen: Seen) -> Guest | None:
        """The channel to a machine that is to be adopted, as long as nothing of it is changed; None without one."""
        ...

    def rebuild(self, want: MachineWant, seen: Seen, *, anew: bool) -> MachinePlan:
        """The steps to the template the machine would come from, if it is missing or wanted anew. Pure."""
        ...

    def templates(self, seen: Seen) -> Sequence[TemplateInfo]:
        """The templates that were seen."""
        ...

    def remove_template(self, info: TemplateInfo) -> None:
        """Delete a template."""
        ...

    def examine(self, wants: Sequence[MachineWant]) -> tuple[Sequence[Finding], Sequence[str]]:
        """Whether the place can do what these machines need; and what a person can run about it."""
        ...

    def verify(self, want: MachineWant, seen: Seen) -> Sequence[Finding]:
        """What of the machine and its state can be proved from outside. Pure."""
        ...

    def notes(self, want: MachineWant, seen: Seen) -> str:
        """What the place shows of the agent's machine and state to everyone who may look at it."""
        ...

    def machine(self, want: MachineWant, seen: Seen) -> Machine:
        """The machine as it was seen."""
        ...

    def perform(self, action: Action, seen: Seen, got: Got) -> Got:
        """Carry out a step's action on what was seen when it was planned; returns what later steps may refer to.

        Raises ``WorldChanged`` where a machine is no longer the one that was seen.
        """
        ...

    def guest(self, want: MachineWant, seen: Seen, got: Got) -> Guest | None:
        """The channel to the machine as it was seen, or as a run has brought it up since."""
        ...


def place_for(
    name: str, spec: PlaceSpec, folder: Path, reporter: Callable[[str], None], *, patient: bool = True
) -> Place[Any]:
    """Return the place a file describes; ``story`` hears what is worth telling on the way.

    What only a person can do is waited for, unless not ``patient``.
    """
    if spec.proxmox is not None:
        from paddock.places.proxmox.place import ProxmoxPlace

        return ProxmoxPlace(spec.proxmox, folder, reporter, patient=patient)
    if spec.host is not None:
        from paddock.places.host import HostPlace

        return HostPlace(name, spec.host, folder)
    raise AssertionError("the validator lets no place without a kind pass")
