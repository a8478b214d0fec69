"""Agents for the hostile tests: a small workload in each runtime, applied with the real scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hostile.ground import ATTACKER, Machine
from paddock.base.process import Result
from paddock.base.secret import Secret
from paddock.file.agent_id import AgentId
from paddock.kinds.service import ServiceSpec
from paddock.kinds.workload import Keep, Process, StateFile, Workload
from paddock.onboard.program.frozen import decoded
from paddock.plan.agent import AgentSeen
from paddock.runtimes.contract import Runtime
from paddock.runtimes.engine.runtime import Engine
from paddock.runtimes.systemd.runtime import Systemd

SECRET: Final = "a key that only the agent knows"


def spec(runtime: str = "systemd", **more: Any) -> ServiceSpec:
    """Return the specification of a service whose account is the attacker's."""
    container = {"container": {"base": "debian:12"}} if runtime in {"docker", "podman"} else {}
    return ServiceSpec.model_validate(
        {
            "kind": "service",
            "place": "here",
            "runtime": runtime,
            "command": ["true"],
            "user": {"name": "mallory", "uid": ATTACKER},
            **container,
            **more,
        }
    )


def systemd(name: str = "bee", **more: Any) -> Systemd:
    return Systemd(AgentId("home", name), spec(**more))


def docker(name: str = "bee", **more: Any) -> Engine:
    return Engine(AgentId("home", name), spec("docker", **more), Path("/"))


def workload(runtime: Runtime, names: Sequence[str] = ("main",), **environment: str) -> Workload:
    """Return a workload whose PATH begins with a directory in the agent's home, as that of Hermes does."""
    home = runtime.inside.home
    return Workload(
        processes=tuple(
            Process(name, ("true",), {"HOME": home, **environment}, home, stop_seconds=1, path=(f"{home}/.local/bin",))
            for name in names
        ),
        files=(),
        directories=(".local/bin",),
        generated=("MADE_HERE",),
    )


def workload_with_files(runtime: Runtime) -> Workload:
    """Return a workload with state files of every kind that root manages."""
    plain = workload(runtime)
    files = (
        StateFile("locked/.env", "locked\n", Keep.LOCKED),
        StateFile(".hermes/notes.md", "seeded\n", Keep.SEEDED),
        StateFile("a/b/SOUL.md", "planted\n"),
    )
    return Workload(plain.processes, (), (".local/bin", ".hermes"), plain.generated, state_files=files)


def apply(
    machine: Machine, runtime: Runtime, wanted: Workload | None = None, secrets: Mapping[str, str] | None = None
) -> Result:
    """Apply a bundle of the workload on the machine."""
    bundle = runtime.bundle(wanted or workload(runtime), None, mounted=False)
    known = {"KEY": SECRET} if secrets is None else secrets
    sent = bundle.sent({name: Secret(value) for name, value in known.items()}, {})
    return machine.ask(runtime.apply(sent)).result


def created(machine: Machine, runtime: Engine, *, replaces: bool = False) -> None:
    """Create the agent's container on the machine."""
    sent = runtime.bundle(workload(runtime), None, mounted=False).sent({}, {})
    result = machine.ask(runtime.container.create(sent, replaces=replaces)).result
    assert result.ok, result.err


def installed(machine: Machine, runtime: Runtime, wanted: Workload | None = None) -> None:
    result = apply(machine, runtime, wanted)
    assert result.ok, result.err


def seen(machine: Machine, runtime: Runtime) -> AgentSeen:
    """Return the agent as its machine reports it."""
    answer = machine.ask(runtime.observe(()))
    assert answer.result.ok, answer.result.err
    found: AgentSeen = decoded(AgentSeen, answer.value)
    return found
