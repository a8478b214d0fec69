"""Paddock: `paddock up` where nothing exists, and after `paddock down`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bench.noop import with_bytecode
from bench.ways.ground import Ground, read_key
from bench.ways.meter import Measured, Measurement

_TITLES: Final = {
    "template": "build the template",
    "pet.create": "create the pet",
    "cattle.clone": "clone",
    "cattle.start": "start",
    "cattle.grow": "grow the disk",
    "cattle.reach": "reach by ssh",
    "agent.configure": "configure",
}


class WithPaddock:
    """Runs the command as a user would, with a cache of its own."""

    name: Final = "Paddock"

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        folder = ground.stage.folder
        # Otherwise an earlier run would have filled the cache with the agent's code.
        cache = {"XDG_CACHE_HOME": str(folder / "cache"), "UV_CACHE_DIR": str(folder / "cache/uv")}
        environment = {**ground.stage.environment, **cache, "PATH": ground.meter.path}
        self._environment = with_bytecode(environment, folder)  # as an installed Paddock has it
        self._journals = Path(self._environment["XDG_STATE_HOME"]) / "paddock/runs"

    def first(self) -> Measured:
        return self._up()

    def recreate(self) -> Measured:
        return self._up()

    def remove(self) -> None:
        with self._started("down") as running:
            if running.wait():
                raise SystemExit("`paddock down` failed")

    def machine(self) -> tuple[int, str]:
        with self._started("status", "--json", stdout=subprocess.PIPE) as running:
            printed, _ = running.communicate()
        vmid = int(json.loads(printed)[0]["machine"])
        root = Path(f"/proc/{self._ground.pid(vmid)}/root")
        return vmid, read_key(root / "etc/paddock/home_hermes/generated.env")

    def _up(self) -> Measured:
        measuring = self._ground.meter.start(self.name)
        with self._started("up") as running, measuring.memory_of(running):
            code = running.wait()
            ended = time.time()
        note_steps(measuring, max(self._journals.glob("*-up.jsonl")), ended)
        if code:
            raise SystemExit(f"`paddock up` ended with code {code}")
        return measuring.end()

    def _started(self, *words: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "paddock", *words]
        out = sys.stderr if stdout is None else stdout
        return subprocess.Popen(command, cwd=self._ground.stage.folder, env=self._environment, stdout=out)


def note_steps(measuring: Measurement, journal: Path, ended: float) -> None:
    """Note the phases of a run from its journal. The first one is everything before the first step."""
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    steps = [event for event in events if event["event"] in ("begin", "done")]
    if steps:
        measuring.done("read and plan", steps[0]["at"])
    for event in steps:
        if event["event"] == "done" and event["id"] != "agent.answer":
            measuring.done(_title(event["id"]), event["at"])
    measuring.done("answer", ended)


def _title(step: str) -> str:
    return _TITLES.get(step) or _TITLES.get(step.partition(".")[0]) or step
