"""What others need to know of an agent's machine, to go on with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from paddock.run.deployment import Deployment
from paddock.visible import one_line

Values = Mapping[str, str | int | None]


def outputs(agent: Deployment) -> Values:
    """Number, host name and address of its machine; None where there is none, or no such thing."""
    machine = agent.place.machine(agent.machine_want, agent.place.observe(agent.name))
    vmid = int(machine.name) if not agent.place.keeps_machine and machine.name.isdecimal() else None
    return {"vmid": vmid, "hostname": machine.hostname, "address": machine.address}


def as_text(found: Mapping[str, Values]) -> Iterator[str]:
    """Lines for people."""
    for agent, values in found.items():
        yield from (
            f"{agent}.{name} = {'-' if value is None else one_line(str(value))}" for name, value in values.items()
        )


def as_env(found: Mapping[str, Values]) -> Iterator[str]:
    """An env file: what is not there is left out."""
    for agent, values in found.items():
        prefix = re.sub(r"[^A-Z0-9]", "_", agent.upper())
        yield from (
            f"{prefix}_{name.upper()}={one_line(str(value))}" for name, value in values.items() if value is not None
        )
