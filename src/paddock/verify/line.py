"""The subject and the result of a verification: the expected condition of an agent, and lines with evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final

from paddock.base.frozen import frozen
from paddock.kinds.checks import Check
from paddock.kinds.workload import Paths
from paddock.runtimes.contract import Isolation


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"  # the check does not apply here, or could not be made


@frozen
class Line:
    """The result of one check."""

    check: str
    outcome: Outcome
    evidence: str
    hint: str | None = None  # what to do if the check failed
    seconds: float = 0.0

    @classmethod
    def of(cls, check: str, ok: bool, evidence: str, hint: str | None = None, seconds: float = 0.0) -> Line:
        """Return a line that passed or failed. The hint is kept only if it failed."""
        return cls(check, Outcome.OK if ok else Outcome.FAILED, evidence, None if ok else hint, seconds)

    @property
    def failed(self) -> bool:
        return self.outcome is Outcome.FAILED

    def as_data(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": round(self.seconds, 3)}


def by_topic(lines: Sequence[Line]) -> list[Line]:
    """Return the lines grouped by topic, so that ``state.owner`` and ``state.private`` are together."""
    topics = list(dict.fromkeys(line.check.partition(".")[0] for line in lines))
    return sorted(lines, key=lambda line: topics.index(line.check.partition(".")[0]))


_SIGNS: Final = {Outcome.OK: "✓", Outcome.FAILED: "✗", Outcome.UNAVAILABLE: "·"}


def as_text(lines: Sequence[Line]) -> str:
    """Return the lines as text: sign, check, evidence and duration, and the hint below a failed check."""
    width = max((len(line.check) for line in lines), default=0)
    shown: list[str] = []
    for line in lines:
        took = f"  ({line.seconds:.1f} s)" if line.seconds >= 0.05 else ""
        first, *rest = line.evidence.split("\n")
        shown.append(f"  {_SIGNS[line.outcome]} {line.check:<{width}}  {first}{took}")
        shown += [f"    {'':<{width}}  {text}" for text in rest]
        shown += [f"    {'':<{width}}  → {text}" for text in (line.hint.split("\n") if line.hint else ())]
    return "\n".join(shown)


LEASE = "lease"  # the name of the process that holds the lease, in every runtime


@frozen
class Subject:
    """One agent and the values that its checks expect."""

    agent: str
    paths: Paths
    processes: Sequence[str]
    bundle_id: str  # names the expected bundle
    files: Mapping[str, str]  # sha256 of each shipped file, by its path below ``paths.etc``
    tree: str | None  # path of its code tree
    asked: Sequence[Check]  # checks that are asked beside the agent, as its user
    confined: frozenset[Isolation]
    mounted: bool  # the state is a volume
    own_machine: bool  # Paddock made the machine for this agent
    account: str = ""  # on its machine, with root; empty if it runs as the account that supervises it
    memory: int = 0  # bytes that the file asks for; 0 if it says nothing
    limits_units: bool = False  # its units share a host with others, and are limited
    unit_memory: int = 0  # bytes that the file gives each of its units; 0 if it says nothing
    unit_cores: int = 0
    ports: frozenset[int] = frozenset()  # ports that the agent listens on
    health_port: frozenset[int] = frozenset()  # the loopback port that health is asked on, usually the agent's own
    limited: bool = False  # the file limits the agent's connections
    exposed: frozenset[int] = frozenset()  # ports that other machines may reach

    def questions(self, *, quick: bool) -> list[Check]:
        """Return the checks that are asked beside the agent, in the order of their answers."""
        return [check for check in self.asked if check.quick or not quick]
