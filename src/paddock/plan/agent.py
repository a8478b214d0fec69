"""The plan inside a machine: pure functions that compare the wanted agent with the observed one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.text import one_line
from paddock.plan import account, container, namesakes, packages, state
from paddock.plan.actions import ApplyBundle, AwaitAnswer, CheckMounts, ClaimState, InstallCode, RemoveAgent
from paddock.plan.container import ENGINES, ContainerSeen, ContainerWant
from paddock.plan.namesakes import NamesakesSeen
from paddock.plan.step import Phase, Refusal, Risk, Step
from paddock.plan.version import Housing, Upgrade

_NIXOS: Final = "nixos"
CRASHES: Final = 3  # restarts after which a process is not waited for any longer


@frozen
class AgentWant:
    """The agent that the file asks for, by the names of its parts."""

    tree: str | None  # the code tree
    bundle_id: str
    secrets: str  # a digest
    foreground: bool  # runs only while `paddock run` is open
    init: str | None = None  # the program that has to be process 1 of the machine
    packages: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()  # of the packages, those that it can run without
    state: str = ""  # the path of the state on a machine that Paddock did not create
    container: ContainerWant | None = None
    mounts: Sequence[str] = ()  # paths of the host's directories, as the agent sees them
    uid: int = 0  # the agent's, which has to own these directories
    account: str = ""  # NAME:GROUP:UID:GID, if Paddock creates the account
    project: str = ""
    beside_others: bool = False  # other agents of this name may be on the machine too
    incoming: str | None = None  # the name of the stream that becomes its state
    restart: bool = False  # a person asked for it
    version: str = ""  # of its code; empty if it has none of its own
    saves_to: str = ""  # where its state is saved before its version changes or its state is replaced
    saves_replaced: bool = False  # a state that is replaced is saved first
    limits: str = ""  # of its units on a host, in words; empty if its machine or its container has the limits
    stand_in: bool = False  # it talks to a stand-in for its model, on its machine
    added: frozenset[str] = frozenset()  # packages that its template does not have

    def preinstalled(self) -> AgentSeen:
        """Return the packages and the code on a new machine that was cloned from the agent's template."""
        # The template of an agent in a container holds the engine only: the code is installed for its container.
        trees = frozenset({self.tree} if self.tree and not self.container else ())
        return AgentSeen(packages=self.packages - self.added, trees=trees)


@frozen
class Ends:
    """How often systemd has restarted a unit since it was started, and how its process ended last."""

    restarts: int
    how: str  # exit code 3, signal 9; empty if it is not known

    @property
    def crashes(self) -> bool:
        """Whether the process ends again and again."""
        return self.restarts >= CRASHES


@frozen
class AgentSeen:
    """An agent on its machine, as the runtime's observe script reports it."""

    packages: frozenset[str] = frozenset()
    installer: str = ""  # the program that installs packages, or "none"
    system: str = ""  # a distribution that is not like the others
    trees: frozenset[str] = frozenset()
    bundle_id: str = ""
    answered: str = ""  # the bundle that was last verified
    before: str = ""  # the bundle that was verified before the agent was changed, while the change is not verified
    secrets: str = ""
    pending: bool = False  # a run was interrupted between switching the bundle and restarting the agent
    init: str = ""
    state_of: str | None = None
    state_at: str | None = None
    state_version: str = ""  # of its identity, if a newer Paddock wrote it
    planted: str | None = None  # a path where Paddock's own directory in the state should be, and something else is
    forgotten: str | None = None  # a state whose deletion has begun
    kept_aside: str | None = None  # the state from before a restore that did not end
    unsettled: str | None = None  # the path that an interrupted restore left
    changed: Sequence[str] = ()  # files that the file overwrites, and that are not as Paddock wrote them
    ran: str = ""  # the version of the code that last ran on the state
    upgrade: Upgrade | None = None  # the last change of the version
    housing: Housing = Housing()  # of the current bundle
    holder: str | None = None
    account: str = ""  # of the current bundle, in the form of the wanted one
    account_open: Sequence[str] = ()  # ways for others to log in to it, if Paddock made it
    numbers: Mapping[str, str] = field(default_factory=dict)  # of accounts with processes, before the agent is there
    room: tuple[int, int] | None = None  # size and use of the state's filesystem, in bytes
    units: Mapping[str, str] = field(default_factory=dict)
    # Facts for the quick checks of `verify`, if they were read at the same time. Plans do not depend on them.
    facts: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    limits: Sequence[str] = ()  # of its units, as lines of a unit
    said: str = ""  # the message of a unit that failed
    ends: Mapping[str, Ends] = field(default_factory=dict)  # of the units whose process has ended recently
    container: ContainerSeen = field(default_factory=ContainerSeen)
    left: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by engine: software in a container left behind
    namesakes: NamesakesSeen = field(default_factory=NamesakesSeen)
    notes: Sequence[str] = ()
    unread: bool = False  # the machine was stopped, so nothing of this could be read

    def __post_init__(self) -> None:
        if foreign := sorted(self.left.keys() - ENGINES):
            raise PaddockError(f"the machine's report names an unknown container engine: {', '.join(foreign)}")

    @property
    def crashing(self) -> Ends | None:
        """How a process of the agent ends again and again; None if none does."""
        found = [ends for ends in self.ends.values() if ends.crashes]
        return max(found, key=lambda ends: ends.restarts, default=None)

    @property
    def trouble(self) -> str:
        """The condition of an agent whose processes have failed or end again and again, in words."""
        if crash := self.crashing:
            return ", ".join(filter(None, ("crashing", f"{crash.restarts} restarts", crash.how)))
        failed = [self.ends.get(unit) for unit, state in self.units.items() if state == "failed"]
        return ", ".join(filter(None, ("failed", failed[0].how if failed[0] else ""))) if failed else ""

    @property
    def installed(self) -> bool:
        return bool(self.bundle_id or self.units)

    @property
    def has_own_state(self) -> bool:
        return self.state_of is not None and not (self.namesakes.state_of_former or self.namesakes.state_of_other)

    @property
    def goes_back(self) -> bool:
        """Whether a rollback has begun and not ended."""
        return self.upgrade is not None and self.upgrade.back

    @property
    def went_back(self) -> bool:
        """Whether the rollback that has begun put the state from before the upgrade in place already."""
        return self.upgrade is not None and self.goes_back and bool(self.kept_aside or self.ran == self.upgrade.before)

    @property
    def unproven(self) -> bool:
        """Whether the agent was not verified since its version changed."""
        last = self.upgrade
        return last is not None and not (last.verified or last.back) and last.after == self.ran

    @property
    def active(self) -> bool:
        return bool(self.units) and all(state == "active" for state in self.units.values())


def up(agent: str, want: AgentWant, seen: AgentSeen, *, adopted_state: bool = False) -> Iterator[Step]:
    """Yield the steps to an agent that runs and answers."""
    yield from packages.steps(want.packages - seen.packages, seen.installer)
    if want.container:
        yield from container.image_steps(want.container, seen.container)
    lacks_code = want.tree is not None and want.tree not in seen.trees
    if want.tree and lacks_code:
        title = f"install the code of {agent}"
        yield Step("code.install", title, "it is not installed", InstallCode(want.tree), phase=Phase.SOFTWARE)
    if adopted_state and seen.state_of is None:
        yield claim(agent)
    moved = namesakes.moved(agent, seen.namesakes)
    yield from namesakes.rename_steps(agent, want.project, seen.namesakes)
    leaves = state.version_left(want, seen)
    yield from state.steps(agent, want, seen, leaves)
    reason = (
        moved
        if moved
        else f"{leaves} becomes {want.version}"
        if leaves and not want.incoming
        else _why_configure(want, seen)
    )
    if want.container:
        created = list(container.create_steps(agent, want.container, seen.container, want.bundle_id, moved))
        if created and leaves:
            yield container.try_step(want.container, reason or "")
        yield from created
        if created:
            reason = reason or "it gets a new container"
        elif reason:
            reason += "; its container stays, with the software installed in it"
    if reason and want.limits and not seen.limits:
        reason += f"; each of its units gets a limit: {want.limits}"
    if reason:
        risk = Risk.RESTARTS if seen.active else Risk.SAFE
        action_ = ApplyBundle(want.bundle_id)
        yield Step("agent.configure", f"configure {agent}", reason, action_, risk, Phase.AGENT)
        if want.container and want.container.packages:
            yield container.packages_step(agent, want.container)
    elif seen.account_open:  # otherwise configuring closes it
        yield account.close(agent, seen)
    changed = reason or seen.account_open or lacks_code or seen.kept_aside or seen.goes_back or seen.unproven
    if not want.foreground and (changed or seen.answered != want.bundle_id):
        yield answer(agent, "it was changed" if changed else "it was not verified since its last change")
    yield from state.last_steps(agent, want, seen)
    yield from container.leftover_steps(agent, seen.left)


def planted(agent: str, path: str) -> Refusal:
    """Return the refusal for a file that has the name of Paddock's own directory in a state."""
    return Refusal(
        f"{path}, in the state of {agent}, is not a directory that belongs to root with mode 0700",
        "if it is a copy of Paddock's own directory, repair it: chown -R 0:0 and chmod 700;"
        f" otherwise move it away and run `paddock adopt {agent}`, which claims the files",
        code="state.planted",
    )


def newer(agent: str, seen: AgentSeen) -> Refusal:
    """Return the refusal for a state that a newer Paddock wrote."""
    return Refusal(
        f"a newer Paddock wrote the state of {agent}:"
        f" {seen.state_at}/.paddock/identity has version {seen.state_version}",
        "use that version of Paddock, or a newer one",
        code="state.newer",
    )


def refusal(agent: str, want: AgentWant, seen: AgentSeen) -> Refusal | None:
    """Return why the agent cannot be brought up on a machine in this condition, or None."""
    if seen.planted:
        return planted(agent, seen.planted)
    if seen.state_version:
        return newer(agent, seen)
    own, project = seen.installed, want.project
    if found := namesakes.refusal(agent, project, seen.namesakes, installed=own, beside_others=want.beside_others):
        return found
    if seen.forgotten:
        return Refusal(
            f"the state of {agent} is being deleted ({seen.forgotten})",
            f"`paddock forget {agent}` finishes it",
            code="state.being-deleted",
        )
    if found := state.refusal(agent, want, seen):
        return found
    if seen.system == _NIXOS:
        return Refusal(
            f"{agent} cannot be a system service on NixOS, where /etc/systemd/system is read-only",
            "let the systemd of an account run the agent: host: {scope: user};"
            " a NixOS module for system services, `paddock export nixos`, does not exist yet",
            code="machine.nixos",
        )
    if want.init and seen.init and seen.init != want.init:
        hint = "as root, `loginctl enable-linger ACCOUNT` starts one; " if want.init.endswith("--user") else ""
        return Refusal(
            f"{agent} needs {want.init} as its supervisor, and its machine has {seen.init}",
            f"{hint}without systemd, on this machine, use runtime: process",
            code="machine.other-init",
        )
    if found := packages.refusal(agent, want.packages - want.optional - seen.packages, seen.installer):
        return found
    if want.state and seen.state_at and seen.state_at != want.state:
        return Refusal(
            f"the state of {agent} is {seen.state_at} on its machine, but the file says {want.state}",
            f"to move it: `paddock down --only {agent}` with the previous file, then mv, then `paddock up`",
            code="state.elsewhere",
        )
    if found := account.refusal(agent, want, seen):
        return found
    return container.refusal(agent, want.container, seen.container) if want.container else None


def claim(agent: str) -> Step:
    """Return the step that makes existing files the agent's state."""
    title = f"make the existing files the state of {agent}, in its home"
    return Step("state.claim", title, "the state was adopted", ClaimState(), phase=Phase.SOFTWARE)


def answer(agent: str, reason: str, phase: Phase = Phase.AGENT) -> Step:
    """Return the step that waits for the agent and verifies it."""
    return Step("agent.answer", f"wait for an answer from {agent}", reason, AwaitAnswer(), phase=phase)


def check_mounts(want: AgentWant) -> Step:
    """Return the step that checks the host's directories, as the agent's account sees them."""
    title = f"check that the agent can use {', '.join(want.mounts)}"
    return Step("mounts.check", title, f"uid {want.uid} has to own them", CheckMounts(), phase=Phase.MOUNTS)


def _why_configure(want: AgentWant, seen: AgentSeen) -> str | None:
    if seen.unread:
        return "its machine was stopped, so its configuration could not be read"
    if not seen.bundle_id:
        return "it has no configuration yet"
    if seen.bundle_id != want.bundle_id:
        return "its configuration changed"
    if seen.secrets != want.secrets:
        return "its secrets changed"
    if seen.pending:
        return "its last change was not finished"
    if seen.changed:
        return f"{one_line(', '.join(seen.changed))} is not as Paddock wrote it"
    if want.incoming:
        return "its state is another"
    if want.restart or (not want.foreground and not seen.active):
        return "it is not running"
    return None


def down(agent: str, seen: AgentSeen) -> Iterator[Step]:
    """Yield the steps that remove the agent from its machine and keep its state."""
    if seen.installed or seen.container.ours:
        reason = f"its state is kept{seen.container.lost}" if seen.container.ours else "its state is kept"
        yield Step("agent.remove", f"remove {agent} from the machine", reason, RemoveAgent(), Risk.RECREATES)
    yield from container.leftover_steps(agent, seen.left)
