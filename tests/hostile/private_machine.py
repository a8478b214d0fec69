"""Run the scripts of `up` and `down` for named agents on a machine to attack, and read its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostile.ground import Machine
from paddock.base.process import Result
from paddock.channels import Guest, expect
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import ask
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import AgentSpec
from paddock.kinds import KINDS, agent_from
from paddock.plan.agent import AgentSeen
from paddock.runtimes.open import runtime_for


@dataclass(frozen=True)
class PrivateMachine:
    """A machine to attack whose files a test reads and writes directly."""

    ground: Machine

    def at(self, path: str) -> Path:
        """Return where this machine sees a path of the machine to attack."""
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
        """Run a program on the machine and return its stdout."""
        return expect(self.guest, "running", argv)

    def apply(self, name: str, *, home: str | None = None, **keys: Any) -> None:
        """Run the script of `up`; with ``home`` as for an account without root."""
        spec = spec_of(name, **keys)
        runtime = runtime_for(AgentId("home", name), spec, Path(), home)
        workload = KINDS[spec.kind].workload(spec, runtime.inside, "")
        bundle = runtime.bundle(workload, None, mounted=False)
        ask(self.guest, "applying", runtime.apply(bundle.sent({}, {})))

    def observe(self, name: str, **keys: Any) -> AgentSeen:
        """Run the script that observes the agent."""
        runtime = runtime_for(AgentId("home", name), spec_of(name, **keys), Path(), None)
        return ask(self.guest, "observing", runtime.observe([]), into=AgentSeen)

    def remove(self, name: str, *, home: str | None = None, **keys: Any) -> None:
        """Run the script of `down`."""
        runtime = runtime_for(AgentId("home", name), spec_of(name, **keys), Path(), home)
        ask(self.guest, "removing", runtime.remove())


def spec_of(name: str, *, state: str | None = None, **keys: Any) -> AgentSpec:
    """Return an agent with its state at any path, also at one that the validator rejects."""
    user = {"name": name, "uid": 10000 + sum(map(ord, name))}
    spec = agent_from({"kind": "service", "command": ["true"], "place": "here", "user": user, **keys})
    return spec.model_copy(update={"state": spec.state.model_copy(update={"path": state})})
