"""Anything that should run: packages and a command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paddock.recipes.checks import Check
from paddock.recipes.documents import beyond_home, documents, working_directory
from paddock.recipes.gateway import ModelServer
from paddock.recipes.workload import (
    CodeTree,
    Command,
    Distribution,
    OpenPort,
    Page,
    Paths,
    Probes,
    Process,
    Traces,
    Workload,
)
from paddock.spec.models import ServiceSpec


class Service:
    """The recipe of kind ``service``."""

    def packages(self, agent: ServiceSpec) -> Sequence[str]:
        return tuple(agent.packages)

    def recommended_packages(self, agent: ServiceSpec) -> Sequence[str]:
        return ()

    def distribution(self, agent: ServiceSpec, folder: Path) -> Distribution | None:
        return None

    def code(self, agent: ServiceSpec, folder: Path) -> CodeTree | None:
        return None

    def workload(self, agent: ServiceSpec, paths: Paths, tree: str) -> Workload:
        main = Process(
            name="main",
            argv=(*agent.command, *agent.service.args),
            environment={"HOME": paths.home, **agent.environment},
            directory=working_directory(agent, paths),
            stop_seconds=30,
            restart=agent.service.restart,
            restart_seconds=agent.service.restart_delay,
            writable=beyond_home(agent, paths),
        )
        return Workload(
            processes=(main,),
            files=(),
            directories=(agent.working_directory,),
            generated=(),
            state_files=documents(agent),
        )

    def probes(self, agent: ServiceSpec, prompt: str, conversation: str) -> Probes:
        return Probes(_health(agent), prompt=None)

    def checks(self, agent: ServiceSpec, name: str, paths: Paths) -> Sequence[Check]:
        return ()

    def traces(self, agent: ServiceSpec) -> Traces:
        # Nothing is known of a program but where it works.
        return Traces((agent.working_directory,) if agent.working_directory.startswith("/") else ())

    def offer(self, agent: ServiceSpec) -> None:
        return None

    def using(self, agent: ServiceSpec, server: ModelServer) -> ServiceSpec:
        return agent


def _health(agent: ServiceSpec) -> Page | Command | OpenPort | None:
    health = agent.health
    if health.command:
        return Command(tuple(health.command))
    if health.port:
        return OpenPort(health.port)
    return Page(health.http, health.status) if health.http else None
