"""What to do inside a machine: pure functions from the agent that is wanted and what is there to steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from paddock.errors import PaddockError
from paddock.plan import container
from paddock.plan.container import ENGINES, ContainerSeen, ContainerWant
from paddock.plan.step import Action, Refusal, Risk, Step

# What the scripts of the runtimes report.
_RECORDS: Final = frozenset(
    {
        *("package", "bundle", "init", "answered", "pending", "tree", "secrets", "holder", "room", "note"),
        *("state.at", "state.agent", "state.planted", "state.forgotten"),
        *("unit", "said", "engine", "info", "image", "container", "layer"),
        *("left", *(f"left.{engine}" for engine in ENGINES)),
    }
)


@dataclass(frozen=True)
class AgentWant:
    """The agent as the file has it, by the names of its parts."""

    tree: str | None
    bundle_id: str
    secrets: str  # digest
    foreground: bool  # nothing keeps it running but a person
    init: str | None = None  # what has to be process 1 of the machine
    packages: frozenset[str] = frozenset()
    state: str = ""  # where its state is to be, on a machine that stays
    container: ContainerWant | None = None


@dataclass(frozen=True)
class AgentSeen:
    """The agent's part of a machine, as the runtime's observe script reports it."""

    packages: frozenset[str] = frozenset()
    trees: frozenset[str] = frozenset()
    bundle_id: str = ""
    answered: str = ""  # the bundle that was last seen to work
    secrets: str = ""
    pending: bool = False  # what is in force may not be what runs: a run was cut off before the restart
    init: str = ""
    state_of: str | None = None
    state_at: str | None = None
    planted: str | None = None  # where Paddock's part of the state should be, and something else is
    forgotten: str | None = None  # a state that is being deleted
    holder: str | None = None
    room: tuple[int, int] | None = None  # size and use of the state's filesystem, in bytes
    units: Mapping[str, str] = field(default_factory=dict)
    said: str = ""  # by a unit that failed, to Paddock
    container: ContainerSeen = field(default_factory=ContainerSeen)
    left: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what is installed in containers of other engines
    notes: Sequence[str] = ()  # what is worth telling of it
    unread: bool = False  # its machine was stopped, so that nothing of this is known

    @classmethod
    def from_records(cls, pairs: Sequence[tuple[str, str]]) -> Self:
        """Read the records of a report; an error if it says anything that the runtimes' scripts do not say."""
        values = dict(pairs)
        if unknown := sorted(values.keys() - _RECORDS):
            raise PaddockError(f"the machine reports something unknown: {', '.join(unknown)}")
        engines = [value for name, value in pairs if name == "left"]
        if foreign := sorted(set(engines) - ENGINES):
            raise PaddockError(f"the machine reports an engine that Paddock does not know: {', '.join(foreign)}")
        return cls(
            packages=frozenset(value for name, value in pairs if name == "package"),
            trees=frozenset(value for name, value in pairs if name == "tree"),
            bundle_id=values.get("bundle", ""),
            answered=values.get("answered", ""),
            init=values.get("init", ""),
            secrets=values.get("secrets", ""),
            pending="pending" in values,
            state_of=values.get("state.agent"),
            state_at=values.get("state.at"),
            planted=values.get("state.planted"),
            forgotten=values.get("state.forgotten"),
            holder=values.get("holder"),
            room=_two_numbers(values.get("room", "")),
            said=values.get("said", ""),
            container=ContainerSeen.from_pairs(pairs),
            left={engine: sorted({value for name, value in pairs if name == f"left.{engine}"}) for engine in engines},
            notes=tuple(value for name, value in pairs if name == "note"),
            units={unit: state for unit, _, state in (value.partition(" ") for name, value in pairs if name == "unit")},
        )

    @property
    def installed(self) -> bool:
        return bool(self.bundle_id or self.units)

    @property
    def active(self) -> bool:
        return bool(self.units) and all(state == "active" for state in self.units.values())


def _two_numbers(text: str) -> tuple[int, int] | None:
    words = text.split()
    return (int(words[0]), int(words[1])) if len(words) == 2 and all(word.isdigit() for word in words) else None


@dataclass(frozen=True)
class InstallPackages(Action):
    packages: Sequence[str]


@dataclass(frozen=True)
class InstallCode(Action):
    tree: str


@dataclass(frozen=True)
class ApplyBundle(Action):
    bundle_id: str


@dataclass(frozen=True)
class ClaimState(Action):
    """Make files that were there before Paddock the agent's state."""


@dataclass(frozen=True)
class AwaitAnswer(Action):
    """Wait until the agent is healthy and has answered a prompt."""


@dataclass(frozen=True)
class RemoveAgent(Action):
    """Take code and configuration away; the state stays."""


def up(agent: str, want: AgentWant, seen: AgentSeen, *, adopted: bool = False) -> Iterator[Step]:
    """The steps to an agent that runs and answers; ``adopted`` says that its state was there before Paddock."""
    if want.container and (first := container.starts(want.container, seen.container)):
        yield first
        return
    missing = sorted(want.packages - seen.packages)
    if missing:
        title = f"install packages: {', '.join(missing)}"
        yield Step("packages.install", title, "they are not there", InstallPackages(missing))
    if want.container:
        yield from container.before_code(want.container, seen.container)
    codeless = want.tree is not None and want.tree not in seen.trees
    if want.tree and codeless:
        yield Step("code.install", f"install the code of {agent}", "it is not there", InstallCode(want.tree))
    if adopted and seen.state_of is None:
        yield claim(agent)
    reason = _why_apply(want, seen)
    if want.container:
        made = list(container.after_code(agent, want.container, seen.container, want.bundle_id))
        yield from made
        if made:
            reason = reason or "its container is another one"
        elif reason:
            reason += "; its container stays, with what is installed in it"
    if reason:
        risk = Risk.RESTARTS if seen.active else Risk.SAFE
        yield Step("agent.configure", f"configure {agent}", reason, ApplyBundle(want.bundle_id), risk)
    changed = reason or codeless
    if not want.foreground and (changed or seen.answered != want.bundle_id):
        yield answer(agent, "it was changed" if changed else "it was not seen to answer since it was changed")
    # Only now, when all works without it.
    yield from container.left_behind(agent, seen.left)


def planted(agent: str, path: str) -> Refusal:
    """What to say of something that has the name of Paddock's own part of a state."""
    return Refusal(
        f"{path}, in the state of {agent}, is not a directory of root's alone",
        "if a copy of Paddock's own came back with another owner or mode, chown -R 0:0 and chmod 700 put that right;"
        f" otherwise move it away, and `paddock adopt {agent}` claims the files",
    )


def refusal(agent: str, want: AgentWant, seen: AgentSeen) -> Refusal | None:
    """What stands against bringing the agent up on a machine like this."""
    if seen.planted:
        return planted(agent, seen.planted)
    if seen.forgotten:
        return Refusal(
            f"the state of {agent} is being deleted ({seen.forgotten})", f"`paddock forget {agent}` goes on with it"
        )
    if want.init and seen.init and seen.init != want.init:
        hint = "as root, `loginctl enable-linger ACCOUNT` starts one; " if want.init.endswith("--user") else ""
        return Refusal(
            f"{agent} is to be supervised by {want.init}, and its machine has {seen.init}",
            f"{hint}without systemd, on this machine: runtime: process",
        )
    if want.state and seen.state_at and seen.state_at != want.state:
        return Refusal(
            f"the state of {agent} is {seen.state_at} on its machine, and the file says {want.state}",
            f"to move it: `paddock down --only {agent}` with the file as it was, then mv it there, then `paddock up`",
        )
    return container.refusal(agent, want.container, seen.container) if want.container else None


def claim(agent: str) -> Step:
    """The step that makes what was there before Paddock the agent's."""
    title = f"make what is there the state of {agent}, in its home"
    return Step("state.claim", title, "it was adopted", ClaimState())


def answer(agent: str, reason: str) -> Step:
    """The step that ends when the agent has answered a prompt."""
    return Step("agent.answer", f"wait for an answer of {agent}", reason, AwaitAnswer())


def _why_apply(want: AgentWant, seen: AgentSeen) -> str | None:
    if seen.unread:
        return "its machine was stopped, and what is on it could not be read"
    if not seen.bundle_id:
        return "it has no configuration yet"
    if seen.bundle_id != want.bundle_id:
        return "its configuration changed"
    if seen.secrets != want.secrets:
        return "its secrets changed"
    if seen.pending:
        return "its last change was not finished"
    if not want.foreground and not seen.active:
        return "it does not run"
    return None


def down(agent: str, seen: AgentSeen) -> Iterator[Step]:
    """The steps to a machine without the agent, with its state kept."""
    if seen.installed or seen.container.ours:
        reason = f"its state stays{seen.container.lost}" if seen.container.ours else "its state stays"
        yield Step("agent.remove", f"remove {agent} from the machine", reason, RemoveAgent(), Risk.RECREATES)
    yield from container.left_behind(agent, seen.left)
