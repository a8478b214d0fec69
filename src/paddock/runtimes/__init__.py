"""What supervises an agent on its machine: rendering a workload, and the scripts that put it in force."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from paddock.recipes.workload import Health, Paths, Process, Workload
from paddock.runtimes.bundle import Bundle, BundleFile
from paddock.runtimes.envfile import quote
from paddock.runtimes.isolation import Isolation
from paddock.spec.models import AgentSpec, RuntimeName

if TYPE_CHECKING:
    from paddock.runtimes.engine.container import AgentContainer


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

    def bundle(self, workload: Workload, tree: str | None, *, mounted: bool, health: Health = None) -> Bundle:
        """Render the workload as files.

        ``tree`` names its code tree, ``mounted`` says that the state must be a volume, and a container engine asks for
        ``health`` too.
        """
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


def reporting(*parts: tuple[str, str], arguments: Sequence[str]) -> list[str]:
    """Return an argv that runs package files which report what they find; ``guests.report`` reads it."""
    here = "paddock.runtimes"
    return script((here, "report.sh"), *parts, (here, "reported.sh"), arguments=arguments)


def script(*parts: tuple[str, str], arguments: Sequence[str]) -> list[str]:
    """Return an argv that runs package files, one after another, as one shell program."""
    text = "\n".join((resources.files(package) / name).read_text(encoding="utf-8") for package, name in parts)
    return ["sh", "-c", text, "paddock", *arguments]
