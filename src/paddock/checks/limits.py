"""Check that the kernel limits what the agent's units use of a host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.checks.line import Line, Outcome
from paddock.checks.subject import Subject

_NAME: Final = "machine.limits"
_SLACK: Final = 1.01  # the kernel rounds to pages, systemd to thousandths


def lines(subject: Subject, fact: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Line]:
    """Check the limits that the file asks for. Without any, the units may use most of the memory, and that is told."""
    if not subject.limits_units:
        return
    found = list(fact["found"].values())
    if not found:
        yield Line(_NAME, Outcome.UNAVAILABLE, "no process of the agent runs")
        return
    memories, cores = ([each[name] for each in found] for name in ("memory", "cores"))
    ignored = [
        f"machine.{name}"
        for name, wanted, seen in (("memory", subject.unit_memory, memories), ("cores", subject.unit_cores, cores))
        if wanted and not all(each is not None and each <= wanted * _SLACK for each in seen)
    ]
    if ignored:
        hint = "its systemd may have no such controller of cgroups: then remove the key; else `paddock restart` helps"
        evidence = f"the kernel does not limit the agent's units to {' and '.join(ignored)}"
        yield Line.of(_NAME, False, evidence, hint, fact["seconds"])
    elif any(each is None for each in memories):
        evidence = "the memory of the units is not limited; the next change of the agent limits it, if the machine can"
        yield Line(_NAME, Outcome.UNAVAILABLE, evidence)
    else:
        more = f" and {max(cores):g} cores" if subject.unit_cores else ""
        evidence = f"each unit uses at most {max(memories) >> 20}M of memory{more}"
        yield Line.of(_NAME, True, evidence, seconds=fact["seconds"])
