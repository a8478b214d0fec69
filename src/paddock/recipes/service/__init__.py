"""The recipe of kind ``service``: any program that is a command and Debian packages."""

from __future__ import annotations

from paddock.recipes.base import BaseRecipe
from paddock.recipes.documents import beyond_home, documents, working_directory
from paddock.recipes.reaches import named_in
from paddock.recipes.service.spec import ServiceSpec
from paddock.recipes.workload import (
    Command,
    OpenPort,
    Page,
    Paths,
    Probes,
    Process,
    Traces,
    Workload,
)


class Service(BaseRecipe[ServiceSpec]):
    """The recipe of kind ``service``."""

    model = ServiceSpec

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
            reaches=named_in(agent.command, agent.service.args, agent.environment),
        )

    def probes(self, agent: ServiceSpec, prompt: str, conversation: str) -> Probes:
        return Probes(_health(agent), prompt=None)

    def traces(self, agent: ServiceSpec) -> Traces:
        # Only the working directory of a program is known.
        return Traces((agent.working_directory,) if agent.working_directory.startswith("/") else ())


def _health(agent: ServiceSpec) -> Page | Command | OpenPort | None:
    health = agent.health
    if health.command:
        return Command(tuple(health.command))
    if health.port:
        return OpenPort(health.port)
    return Page(health.http, health.status) if health.http else None
