"""What supervises an agent on its machine: rendering a workload, and the scripts that put it in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from paddock.guests import Guest
from paddock.recipes.workload import CodeTree, Paths, Process, Workload
from paddock.runtimes.bundle import Bundle, BundleFile
from paddock.runtimes.envfile import quote
from paddock.runtimes.isolation import Isolation
from paddock.spec.models import AgentSpec, RuntimeName


@dataclass(frozen=True)
class Image:
    """An image on the machine, and where it comes from."""

    name: str
    archive: Path | None  # a file here; without it a registry


class AgentContainer(Protocol):
    """The part of a runtime that is about its container. Pure, but for reading an archive."""

    @property
    def engine(self) -> str:
        """The engine's program."""
        ...

    @property
    def service(self) -> str | None:
        """The unit of its daemon."""
        ...

    @property
    def packages(self) -> Sequence[str]:
        """The packages that bring the engine."""
        ...

    @property
    def data(self) -> str:
        """Where the engine keeps images and containers."""
        ...

    @property
    def image(self) -> Image:
        """What the container is made of."""
        ...

    @property
    def brings_code(self) -> bool:
        """Whether the agent's code is in the image."""
        ...

    def identity(self, workload: Workload) -> str:
        """What makes it another container, as ``name=hash`` words."""
        ...

    def tree(self, tree: CodeTree) -> str:
        """The name of a code tree that was built for it."""
        ...

    def builder(self, machine: Guest) -> Guest:
        """Where code for it is built: a machine like it will be."""
        ...

    def sample(self, machine: Guest) -> Guest:
        """A machine like it will be, with nothing of the agent's in it."""
        ...

    def trial(self, workload: Workload) -> Sequence[str]:
        """The argv that shows, there, that the agent's account can be had."""
        ...

    def load(self) -> Sequence[str]:
        """The argv that takes the image's archive on stdin and prints the image's id."""
        ...

    def create(self, bundle_id: str, *, replaces: bool) -> Sequence[str]:
        """The argv that makes it from a bundle's archive on stdin; one that is there goes, if it may."""
        ...


class Runtime(Protocol):
    """One agent under one supervisor: its workload rendered, and the argvs for a guest to run. Pure."""

    @property
    def foreground(self) -> bool:
        """Whether the agent runs only while a person keeps ``paddock run`` open."""
        ...

    @property
    def init(self) -> str | None:
        """What has to be process 1 of the machine."""
        ...

    @property
    def paths(self) -> Paths:
        """Where things are on the machine."""
        ...

    @property
    def inside(self) -> Paths:
        """The same as the agent's processes see it."""
        ...

    @property
    def container(self) -> AgentContainer | None:
        """What is between the machine and the agent, if anything is."""
        ...

    def bundle(self, workload: Workload, tree: str | None, *, mounted: bool) -> Bundle:
        """The workload as files, with the id of its code tree; ``mounted`` says that the state must be a volume."""
        ...

    def observe(self, packages: Sequence[str]) -> Sequence[str]:
        """The argv that reports what of the agent and of these packages is on the machine."""
        ...

    def apply(self, bundle_id: str) -> Sequence[str]:
        """The argv that puts a bundle's archive from stdin in force."""
        ...

    def remove(self) -> Sequence[str]:
        """The argv that takes the agent away and leaves its state."""
        ...

    @property
    def confines(self) -> frozenset[Isolation]:
        """What it keeps an agent from."""
        ...

    def supervised(self, workload: Workload) -> Sequence[str]:
        """The names of what it keeps running, as ``inspect`` prints them."""
        ...

    def inspect(self) -> Sequence[str]:
        """The argv that reports how its processes and its lease are: ``process.NAME=STATE PID RESTARTS SINCE``.

        ``active`` is the state of one that runs; the lease's name is ``lease``; since is in seconds of the epoch. Where
        the supervisor's own process only waits for a container, ``container.pid=PID`` is the container's first process.
        """
        ...

    def record_verified(self, bundle_id: str) -> Sequence[str]:
        """The argv that writes down, on the machine, that this bundle was seen to work."""
        ...

    def enter(self, argv: Sequence[str]) -> Sequence[str]:
        """The argv that runs something beside the agent: as its user, with its environment, in its home."""
        ...

    def logs(self, lines: int, *, follow: bool) -> Sequence[str]:
        """The argv that prints what the agent has said."""
        ...


def runtime_for(agent: str, spec: AgentSpec, folder: Path, home: str | None) -> Runtime:
    """Return the runtime an agent of the file asks for.

    ``folder`` is the file's; ``home`` that of the account it is supervised in, where that is done without root.
    """
    match spec.runtime:
        case RuntimeName.SYSTEMD:
            from paddock.runtimes.systemd.runtime import Systemd

            return Systemd(agent, spec, home)
        case RuntimeName.PROCESS:
            from paddock.runtimes.process.runtime import ForegroundProcess

            return ForegroundProcess(agent, spec)
        case RuntimeName.DOCKER | RuntimeName.PODMAN:
            from paddock.runtimes.engine.runtime import Engine

            return Engine(agent, spec, folder, home)


def environment_of(workload: Workload) -> str:
    """What all of an agent's processes have in their environment, as a file a shell can read."""
    shared = [dict(process.environment) for process in workload.processes]
    common = {name: value for name, value in shared[0].items() if all(each.get(name) == value for each in shared)}
    path = [f'PATH={quote(":".join(workload.processes[0].path))}:"$PATH"\n'] if workload.processes[0].path else []
    return "".join([*(f"{name}={quote(value)}\n" for name, value in sorted(common.items())), *path])


def variables(process: Process, machine_path: str) -> dict[str, str]:
    """The environment of a process; its own directories of programs come before those of the machine."""
    if not process.path:
        return dict(process.environment)
    path = ":".join([*process.path, process.environment.get("PATH", machine_path)])
    return {**process.environment, "PATH": path}


def configuration(workload: Workload) -> dict[str, BundleFile]:
    """The workload's own files in a bundle."""
    return {file.path: BundleFile(file.content, file.executable) for file in workload.files}
