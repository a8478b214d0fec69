"""Limits of an agent's units on a host, which others use too.

The defaults are in limits.sh and not in bundles: another bundle would restart agents that an earlier version deployed.
They get the defaults with their next change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paddock.spec.machine import MachineSpec


def lines(machine: MachineSpec) -> str:
    """Return the lines of a unit for what the file limits; empty if it leaves everything to the defaults."""
    return "".join(f"{line}\n" for line in _lines(machine))


def _lines(machine: MachineSpec) -> Iterator[str]:
    if "memory" in machine.model_fields_set:
        yield f"MemoryMax={int(machine.memory)}"
    if "cores" in machine.model_fields_set:
        yield f"CPUQuota={machine.cores * 100}%"


def in_words(machine: MachineSpec) -> str:
    """Return what limits each unit, for a plan."""
    memory = str(machine.memory) if "memory" in machine.model_fields_set else "80% of the host's memory"
    cores = f" and {machine.cores} cores" if "cores" in machine.model_fields_set else ""
    return f"at most {memory}{cores}"


def effective(found: Sequence[str]) -> list[str]:
    """Return the lines of a unit that count: of each name the last one."""
    return list({line.partition("=")[0]: line for line in found}.values())
