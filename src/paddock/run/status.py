"""What there is to say about an agent at one moment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from paddock.errors import BadInput
from paddock.run.deployment import Deployment, Observation
from paddock.run.table import columns


@dataclass(frozen=True)
class Status:
    """One agent: its machine, its state, who holds its lease, whether it is healthy, what is not as the file says."""

    agent: str
    place: str
    machine: str
    status: str
    address: str
    uptime: str
    made_from: str
    state: str
    used: str
    mounts: str
    lease: str
    health: str
    drift: str

    @classmethod
    def of(cls, deployment: Deployment) -> Self:
        """Observe an agent and ask it how it is."""
        seen = deployment.observe()
        health = deployment.health(seen)
        inside = seen.agent
        held = inside is not None and "active" in inside.units.values()
        return cls(
            agent=deployment.name,
            place=deployment.spec.place,
            machine=seen.machine.name,
            status=seen.machine.status,
            address=seen.machine.address or "-",
            uptime=_duration(seen.machine.uptime),
            made_from=seen.machine.made_from,
            state=seen.machine.state,
            used=_used(inside.room) if inside and inside.room else "-",
            mounts=_mounts(deployment, seen),
            lease=(inside.holder or "-") if inside and held else "-",
            health=str(seen.unreachable or "") or ("-" if health is None else "ok" if health.ok else health.evidence),
            drift=_drift(deployment, seen),
        )

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def _mounts(deployment: Deployment, seen: Observation) -> str:
    """The directories of the host, and whose they have to be there."""
    paths = ", ".join(f"{mount.path} is {mount.host}" for mount in deployment.spec.mounts)
    return f"{paths}, of {seen.machine.owner}" if paths else "-"


def _drift(deployment: Deployment, seen: Observation) -> str:
    """What `up` would do, in few words."""
    try:
        plan = deployment.plan_up(seen)
    except BadInput as error:  # to look, nobody needs the agent's secrets
        return error.message.split("\n")[0].rstrip(":")
    if plan.refusals:
        return plan.refusals[0].reason
    steps = f"{len(plan.steps)} step(s)" if plan.steps else ""
    notes = f"{len(plan.notes)} note(s)" if plan.notes else ""
    return ", ".join(filter(None, (steps, notes))) or "-"


def _duration(seconds: int) -> str:
    if seconds <= 0:
        return "-"
    hours, rest = divmod(seconds, 3600)
    return (
        f"{hours // 24}d {hours % 24}h"
        if hours >= 24
        else f"{hours}h {rest // 60}m"
        if hours
        else f"{rest // 60}m {rest % 60}s"
    )


def _used(room: tuple[int, int]) -> str:
    size, used = room
    return f"{used / (1 << 30):.1f} of {size / (1 << 30):.1f}G"


def table(rows: list[Status]) -> str:
    """The agents side by side, one a column: there is more to tell of each than fits into a line."""
    names = list(Status.__dataclass_fields__)
    return columns([[name, *(str(getattr(row, name)) for row in rows)] for name in names])
