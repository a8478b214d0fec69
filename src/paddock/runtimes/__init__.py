"""What supervises an agent on its machine: rendering a workload, and the scripts that put it in force."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Protocol

from paddock.errors import BadInput
from paddock.recipes.workload import Paths, Workload
from paddock.runtimes.bundle import Bundle
from paddock.runtimes.envfile import quote
from paddock.spec.models import AgentSpec, RuntimeName


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

    def bundle(self, workload: Workload, tree: str | None, *, mounted: bool) -> Bundle:
        """The workload as files, with the id of its code tree; ``mounted`` says that the state must be a volume."""
        ...

    def observe(self, packages: Sequence[str]) -> Sequence[str]:
        """The argv that prints what of the agent and of these packages is on the machine, as ``name=value`` lines."""
        ...

    def apply(self, generation: str) -> Sequence[str]:
        """The argv that puts a bundle's archive from stdin in force."""
        ...

    def remove(self) -> Sequence[str]:
        """The argv that takes the agent away and leaves its state."""
        ...

    def witness(self, generation: str) -> Sequence[str]:
        """The argv that writes down, on the machine, that this generation was seen to work."""
        ...

    def enter(self, argv: Sequence[str]) -> Sequence[str]:
        """The argv that runs something beside the agent: as its user, with its environment, in its home."""
        ...

    def logs(self, lines: int, *, follow: bool) -> Sequence[str]:
        """The argv that prints what the agent has said."""
        ...


def runtime_for(agent: str, spec: AgentSpec) -> Runtime:
    """Return the runtime an agent of the file asks for."""
    match spec.runtime:
        case RuntimeName.SYSTEMD:
            from paddock.runtimes.systemd.runtime import Systemd

            return Systemd(agent, spec)
        case RuntimeName.PROCESS:
            from paddock.runtimes.process.runtime import ForegroundProcess

            return ForegroundProcess(agent, spec)
        case _:
            raise BadInput(f"runtime {spec.runtime} is not carried out yet")


def environment_of(workload: Workload) -> str:
    """What all of an agent's processes have in their environment, as a file a shell can read."""
    shared = [dict(process.environment) for process in workload.processes]
    common = {name: value for name, value in shared[0].items() if all(each.get(name) == value for each in shared)}
    return "".join(f"{name}={quote(value)}\n" for name, value in sorted(common.items()))


def script(*parts: tuple[str, str], arguments: Sequence[str]) -> list[str]:
    """Return an argv that runs package files, one after another, as one shell program."""
    text = "\n".join((resources.files(package) / name).read_text(encoding="utf-8") for package, name in parts)
    return ["sh", "-c", text, "paddock", *arguments]
