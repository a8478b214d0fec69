"""Render a workload for ``paddock run``: the configuration files, and the processes as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Final

from paddock.base import folders
from paddock.base.frozen import frozen
from paddock.channels.sent import script
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import AgentSpec
from paddock.kinds.workload import Health, Paths, Process, Workload
from paddock.runtimes import bundle
from paddock.runtimes.bundle import Bundle, BundleFile, quote
from paddock.runtimes.contract import Isolation, Runtime, configuration, environment_of

PROCESSES: Final = "processes.json"
RUNNING: Final = "running"  # the file beside the bundles that lists the processes of `paddock run`


@frozen
class ForegroundProcess(Runtime):
    """The runtime ``process``: the agent runs in the person's own account, with all files below one folder."""

    agent: AgentId
    spec: AgentSpec
    formers: Sequence[AgentId] = ()  # ids under which the agent may be deployed so far
    foreground = True
    manager = ""
    init = None
    confines: ClassVar[frozenset[Isolation]] = frozenset()
    owners: ClassVar[Sequence[str]] = ()

    @property
    def paths(self) -> Paths:
        data = folders.data() / "paddock"
        return Paths.of(
            code=f"{data}/.code/.store",
            etc=f"{data}/{self.agent}/etc/current",
            state_link=f"{data}/.agents/{self.agent}",
            state=self.spec.state.path or f"{data}/{self.agent.name}/state",
        )

    def bundle(
        self,
        workload: Workload,
        tree: str | None,
        *,
        mounted: bool,
        health: Health = None,
        neighbours: Sequence[str] = (),
    ) -> Bundle:
        paths = self.paths
        environment = {
            "AGENT": str(self.agent),
            "STORE": paths.code,
            "TREE": tree or "",
            "STATE": paths.state,
            "STATE_LINK": paths.state_link,
            "MOUNTED": "yes" if mounted else "",
            "GENERATED": " ".join(workload.generated),
            "HOME_DIR": paths.home,
            "OWNER": "",
        }
        texts = {
            "environment": environment_of(workload),
            "bundle.env": "".join(f"{name}={quote(value)}\n" for name, value in environment.items()),
            PROCESSES: json.dumps([asdict(process) for process in workload.processes], indent=2) + "\n",
            **bundle.rendered(workload),
        }
        return Bundle({**configuration(workload), **{path: BundleFile(text) for path, text in texts.items()}})

    def enter(self, argv: Sequence[str]) -> Sequence[str]:
        return script("enter.sh", [self.paths.root, self.paths.home, *argv])

    def logs(self, lines: int, *, follow: bool) -> Sequence[str]:
        follows = ["--follow"] if follow else []
        return ["tail", "--lines", str(lines), *follows, f"{self.paths.root}/log"]


def processes(etc: Path) -> list[Process]:
    """Return the processes of the current bundle."""
    return [Process(**entry) for entry in json.loads((etc / PROCESSES).read_text())]
