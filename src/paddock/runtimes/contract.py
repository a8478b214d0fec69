"""Runtimes: they render a workload as files, and name the requests that apply the files on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from paddock.channels.onboard import Request
from paddock.file.agent_id import AgentId
from paddock.kinds.workload import Health, Paths, Process, Workload
from paddock.onboard.agent import Agent
from paddock.onboard.apply import Apply, GoBack, RecordVerified
from paddock.onboard.configure import Sent
from paddock.onboard.observe import Observe
from paddock.onboard.rename import Rename
from paddock.onboard.systemd.look import Inspect
from paddock.onboard.systemd.units import Remove, Start, Stop
from paddock.runtimes.bundle import Bundle, BundleFile, quote

if TYPE_CHECKING:
    from paddock.runtimes.engine.container import AgentContainer


class Runtime(Protocol):
    """One agent under one supervisor. Renders its workload, and returns requests for its machine; runs nothing."""

    if TYPE_CHECKING:  # a field of each runtime
        agent: AgentId

    @property
    def foreground(self) -> bool:
        """Whether the agent runs only while a person keeps ``paddock run`` open."""
        return False

    @property
    def init(self) -> str | None:
        """The program that has to be process 1 of the machine, or None if any will do."""

    @property
    def formers(self) -> Sequence[AgentId]:
        """Ids under which the agent may be deployed so far."""

    @property
    def manager(self) -> str:
        """The systemd that supervises it: ``system``, ``user``, or none."""

    @property
    def paths(self) -> Paths:
        """The agent's paths on the machine."""

    @property
    def deployed(self) -> Agent:
        """Where the parts of the agent are, as its machine is told."""
        paths, formers = self.paths, tuple(map(str, self.formers))
        return Agent(self.manager, str(self.agent), formers, paths.root, paths.code, paths.state_link, paths.state)

    @property
    def inside(self) -> Paths:
        """The agent's paths as its processes see them; they differ in a container."""
        return self.paths

    @property
    def owners(self) -> Sequence[str]:
        """The accounts of the agent's listening sockets; none if it runs as the account that supervises it."""

    @property
    def container(self) -> AgentContainer | None:
        """The agent's container, or None if its processes run on the machine directly."""
        return None

    def bundle(
        self,
        workload: Workload,
        tree: str | None,
        *,
        mounted: bool,
        health: Health = None,
        neighbours: Sequence[str] = (),
    ) -> Bundle:
        """Render the workload as files.

        ``tree`` names its code tree, ``mounted`` says that the state must be a volume, and a container engine asks for
        ``health`` too. ``neighbours`` are hosts that the agent must not reach if its connections are limited.
        """

    def observe(self, packages: Sequence[str], distribution: str = "") -> Observe:
        """Return the request for a report of the agent, and of those of the packages that are on the machine.

        ``distribution`` is the package that brings its code.
        """
        return Observe(self.deployed, tuple(packages), distribution)

    def apply(self, sent: Sent) -> Request:
        """Return the request that installs a bundle and makes it the current one."""
        return Apply(self.deployed, sent)

    def back(self, distribution: str = "") -> Request:
        """Return the request that restores the last verified configuration of the agent."""
        return GoBack(self.deployed, distribution)

    def rename(self, former: str, *, mounted: bool) -> Request:
        """Return the request that stops the agent with a former id and makes its parts and its state this agent's."""
        return Rename(self.deployed, former, mounted)

    def stop(self) -> Request:
        """Return the request that stops the agent. `apply` starts it again."""
        return Stop(self.deployed)

    def start(self) -> Request:
        """Return the request that starts a stopped agent as it was, without changing its configuration."""
        return Start(self.deployed)

    def remove(self) -> Request:
        """Return the request that removes the agent and keeps its state."""
        return Remove(self.deployed)

    @property
    def confines(self) -> frozenset[Isolation]:
        """The kinds of isolation that the runtime provides."""

    def supervised(self, workload: Workload) -> Sequence[str]:
        """Return the names of the supervised processes, as ``inspect`` reports them."""
        return [process.name for process in workload.processes]

    def inspect(self) -> Inspect:
        """Return the request for a report of each process and the lease. A running process is ``active``."""
        return Inspect(self.deployed)

    def record_verified(self, bundle_id: str) -> Request:
        """Return the request that records on the machine that this bundle was verified."""
        return RecordVerified(self.deployed, bundle_id)

    def enter(self, argv: Sequence[str]) -> Sequence[str]:
        """Return the argv that runs a program beside the agent: as its user, with its environment, in its home."""

    def logs(self, lines: int, *, follow: bool) -> Sequence[str]:
        """Return the argv that prints the last lines of the agent's log, and new ones with ``follow``."""


def environment_of(workload: Workload) -> str:
    """Return the variables that all processes of an agent share, as a file for a shell."""
    path = [f'PATH={quote(":".join(workload.processes[0].path))}:"$PATH"\n'] if workload.processes[0].path else []
    return "".join([*(f"{name}={quote(value)}\n" for name, value in sorted(_common(workload).items())), *path])


def _common(workload: Workload) -> dict[str, str]:
    first, *others = [process.environment for process in workload.processes]
    return {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}


def common_variables(workload: Workload, machine_path: str) -> dict[str, str]:
    """Return the environment of a program beside the processes: what they share, and the programs of the first."""
    return variables(replace(workload.processes[0], environment=_common(workload)), machine_path)


def variables(process: Process, machine_path: str) -> dict[str, str]:
    """Return the environment of a process. Its own program directories come first on PATH."""
    if not process.path:
        return dict(process.environment)
    path = ":".join([*process.path, process.environment.get("PATH", machine_path)])
    return {**process.environment, "PATH": path}


def configuration(workload: Workload) -> dict[str, BundleFile]:
    """Return the workload's configuration files as files of a bundle."""
    return {file.path: BundleFile(file.content, file.executable) for file in workload.files}


class Isolation(StrEnum):
    ACCOUNT = "account"  # the agent has an account that nobody else uses
    CAPABILITIES = "capabilities"  # the agent has no capabilities and cannot gain any
    PRIVILEGES = "privileges"  # setuid programs do not work
    SYSTEM_CALLS = "system_calls"  # a filter limits them
    PROC = "proc"  # the agent does not see processes of others
    SYS = "sys"  # the agent cannot change kernel settings
