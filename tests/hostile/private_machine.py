"""What `up`, `down` and `adopt` run on a machine to attack, by the names of agents; and a look at what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostile.ground import Machine
from paddock.guests import Guest, expect
from paddock.guests.local import LocalGuest
from paddock.process import Result
from paddock.recipes import agent_from, recipe_for
from paddock.runtimes import runtime_for
from paddock.spec.models import AgentSpec


@dataclass(frozen=True)
class PrivateMachine:
    """A machine whose files a test reads and writes as its own."""

    ground: Machine

    def at(self, path: str) -> Path:
        """Where a path of the machine is."""
        return Path(f"/proc/{self.ground.pid}/root{path}")

    @property
    def guest(self) -> Guest:
        """A channel to the machine."""
        ground = self.ground

        class OnTheMachine(LocalGuest):
            def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
                assert isinstance(stdin, bytes)
                return ground.run(argv, stdin=stdin)

        return OnTheMachine()

    def run(self, *argv: str) -> str:
        """What a program prints that runs on the machine."""
        return expect(self.guest, "running", argv)

    def apply(self, name: str, *, home: str | None = None, **keys: Any) -> None:
        """What `up` does on the machine; with the home of an account, without root."""
        spec = spec_of(name, **keys)
        runtime = runtime_for(name, spec, Path(), home)
        workload = recipe_for(spec.kind).workload(spec, runtime.inside, "")
        bundle = runtime.bundle(workload, None, mounted=False)
        expect(self.guest, "applying", runtime.apply(bundle.id), stdin=bundle.archive({}, {}))

    def remove(self, name: str, *, home: str | None = None, **keys: Any) -> None:
        """What `down` does on the machine."""
        runtime = runtime_for(name, spec_of(name, **keys), Path(), home)
        expect(self.guest, "removing", runtime.remove())


def spec_of(name: str, *, state: str | None = None, **keys: Any) -> AgentSpec:
    """An agent with its state at any path, also at one that no file may have."""
    user = {"name": name, "uid": 10000 + sum(map(ord, name))}
    spec = agent_from({"kind": "service", "command": ["true"], "place": "here", "user": user, **keys})
    return spec.model_copy(update={"state": spec.state.model_copy(update={"path": state})})
