"""What there is to say about an agent at one moment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from paddock.run.deployment import Deployment
from paddock.run.table import columns


@dataclass(frozen=True)
class Status:
    """One agent: machine, address, state, who holds its lease, health."""

    agent: str
    place: str
    machine: str
    status: str
    address: str
    state: str
    lease: str
    health: str

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
            state=seen.machine.state,
            lease=(inside.holder or "-") if inside and held else "-",
            health=seen.problem or ("-" if health is None else "ok" if health.ok else health.evidence),
        )

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def table(rows: list[Status]) -> str:
    """The agents as a table."""
    header = list(Status.__dataclass_fields__)
    return columns([header, *([str(value) for value in asdict(row).values()] for row in rows)])
