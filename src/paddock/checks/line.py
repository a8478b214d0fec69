"""One line of a verification: what was looked at, how it is, and the words that prove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"  # it cannot be seen here, or there is nothing of the kind


@dataclass(frozen=True)
class Line:
    """What was found out about one thing."""

    check: str
    outcome: Outcome
    evidence: str
    hint: str | None = None  # what to do; only of what failed
    seconds: float = 0.0

    @classmethod
    def of(cls, check: str, ok: bool, evidence: str, hint: str | None = None, seconds: float = 0.0) -> Line:
        """A line that holds or does not; the hint is kept for the latter."""
        return cls(check, Outcome.OK if ok else Outcome.FAILED, evidence, None if ok else hint, seconds)

    @property
    def failed(self) -> bool:
        return self.outcome is Outcome.FAILED

    def as_data(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": round(self.seconds, 3)}


def by_topic(lines: Sequence[Line]) -> list[Line]:
    """The lines in the order of their topics' first, so that ``state.owner`` and ``state.private`` stand together."""
    topics = list(dict.fromkeys(line.check.partition(".")[0] for line in lines))
    return sorted(lines, key=lambda line: topics.index(line.check.partition(".")[0]))


_SIGNS: Final = {Outcome.OK: "✓", Outcome.FAILED: "✗", Outcome.UNAVAILABLE: "·"}


def as_text(lines: Sequence[Line]) -> str:
    """The lines for people: a sign, what, the evidence, how long it took, and below what failed what to do."""
    width = max((len(line.check) for line in lines), default=0)
    shown: list[str] = []
    for line in lines:
        took = f"  ({line.seconds:.1f} s)" if line.seconds >= 0.05 else ""
        first, *rest = line.evidence.split("\n")
        shown.append(f"  {_SIGNS[line.outcome]} {line.check:<{width}}  {first}{took}")
        shown += [f"    {'':<{width}}  {text}" for text in rest]
        shown += [f"    {'':<{width}}  → {text}" for text in (line.hint.split("\n") if line.hint else ())]
    return "\n".join(shown)
