"""Renders a workload for ``paddock run``: the same files, and the processes as data."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from paddock.recipes.workload import Paths, Process, Workload
from paddock.runtimes import environment_of, script, statefiles
from paddock.runtimes.bundle import Bundle, BundleFile
from paddock.runtimes.envfile import quote
from paddock.spec.models import UserSpec

_HERE: Final = "paddock.runtimes.process"
_SHARED: Final = "paddock.runtimes"
PROCESSES: Final = "processes.json"


class ForegroundProcess:
    """The runtime ``process``: everything below one folder of the person's own account."""

    foreground = True
    init = None

    def paths(self, agent: str) -> Paths:
        data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
        top = f"{data}/paddock/{agent}"
        return Paths(code=f"{top}/code", etc=f"{top}/etc/current", state=f"{top}/state", home=f"{top}/state/home")

    def bundle(self, agent: str, user: UserSpec, workload: Workload, *, mounted: bool) -> Bundle:
        paths = self.paths(agent)
        environment = {
            "AGENT": agent,
            "STATE": paths.state,
            "MOUNTED": "yes" if mounted else "",
            "GENERATED": " ".join(workload.generated),
            "HOME_DIR": paths.home,
            "OWNER": "",
        }
        texts = {
            "environment": environment_of(workload),
            "bundle.env": "".join(f"{name}={quote(value)}\n" for name, value in environment.items()),
            PROCESSES: json.dumps([asdict(process) for process in workload.processes], indent=2) + "\n",
            **statefiles.rendered(workload),
            **{file.path: file.content for file in workload.files},
        }
        return Bundle({path: BundleFile(text) for path, text in texts.items()})

    def observe(self, agent: str, packages: Sequence[str]) -> Sequence[str]:
        paths = self.paths(agent)
        arguments = [_root(paths), paths.code, paths.state, agent, *packages]
        return script((_SHARED, "observe.sh"), (_HERE, "observe.sh"), arguments=arguments)

    def apply(self, agent: str, generation: str) -> Sequence[str]:
        arguments = [_root(self.paths(agent)), generation]
        return script((_SHARED, "receive.sh"), (_SHARED, "state.sh"), (_HERE, "apply.sh"), arguments=arguments)

    def remove(self, agent: str) -> Sequence[str]:
        paths = self.paths(agent)
        return script((_HERE, "remove.sh"), arguments=[_root(paths), paths.code, paths.state])

    def witness(self, agent: str, generation: str) -> Sequence[str]:
        return ["sh", "-c", 'echo "$1" >"$2"', "paddock", generation, f"{_root(self.paths(agent))}/answered"]

    def enter(self, agent: str, user: UserSpec, argv: Sequence[str]) -> Sequence[str]:
        paths = self.paths(agent)
        inner = [*argv]
        return script((_SHARED, "enter.sh"), arguments=[_root(paths), paths.home, *inner])

    def logs(self, agent: str, lines: int, *, follow: bool) -> Sequence[str]:
        follows = ["--follow"] if follow else []
        return ["tail", "--lines", str(lines), *follows, f"{_root(self.paths(agent))}/log"]


def _root(paths: Paths) -> str:
    """The folder of all generations and of the secrets beside them."""
    return paths.etc.removesuffix("/current")


def processes(etc: Path) -> list[Process]:
    """Return the processes of the configuration in force."""
    return [Process(**entry) for entry in json.loads((etc / PROCESSES).read_text())]
