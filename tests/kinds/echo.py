"""A kind of agent that Paddock does not ship: a Python package with one port, which serves models to other agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from paddock.file.kinds import FileView, Mistake
from paddock.file.models.fields import Port
from paddock.file.tree import Location
from paddock.kinds.code import Distribution
from paddock.kinds.endpoints import Offer
from paddock.kinds.packaged import PackagedRecipe, PackagedSpec
from paddock.kinds.workload import File, Page, Paths, Probes, Process, Workload


class EchoSpec(PackagedSpec):
    """An echo: answers every prompt with the prompt."""

    models_port: ClassVar[str | None] = "web"

    kind: Literal["echo"] = Field(description="echo")
    port: Port = Field(7000, description="port that the echo listens on")
    voice: str = Field("loud", description="loud or soft")

    def ports(self) -> dict[str, int]:
        return {"web": self.port}

    def port_key(self, port: str) -> Location:
        return ("port",)


class Echo(PackagedRecipe[EchoSpec]):
    """The recipe of kind ``echo``."""

    model = EchoSpec
    package = "echo-agent"

    @property
    def locks(self) -> Traversable:
        return Path(__file__).parent

    def proof(self, wanted: Distribution) -> Sequence[str]:
        return ("-c", "import echo_agent")

    def validate(self, name: str, agent: EchoSpec, file: FileView) -> Iterator[Mistake]:
        yield from super().validate(name, agent, file)
        echoes = [other for other, each in file.agents.items() if isinstance(each, EchoSpec)]
        if echoes[0] != name:
            yield ("kind",), f"there is an echo already: {echoes[0]}"

    def settings_mistakes(self, agent: EchoSpec, settings: Mapping[str, Any]) -> Iterator[Mistake]:
        if "volume" in settings and not isinstance(settings["volume"], int):
            yield ("volume",), "must be a number"

    def workload(self, agent: EchoSpec, paths: Paths, tree: str) -> Workload:
        web = Process(
            name="web",
            argv=(f"{tree}/bin/echo-agent", "--host", agent.listens_on("web"), "--port", str(agent.port)),
            environment={"HOME": paths.home, "ECHO_CONFIG": f"{paths.etc}/echo.txt", **agent.environment},
            directory=paths.home,
            stop_seconds=10,
        )
        config = File("echo.txt", f"{agent.voice} {agent.settings.get('volume', 1)}\n")
        return Workload(processes=(web,), files=(config,), directories=(), generated=())

    def probes(self, agent: EchoSpec, prompt: str, conversation: str) -> Probes:
        return Probes(self._health(agent), prompt=None)

    def offer(self, agent: EchoSpec) -> Offer:
        return Offer("web", "/v1", "ECHO_KEY")

    def _health(self, agent: EchoSpec) -> Page:
        return Page(f"{agent.url('web')}/health")
