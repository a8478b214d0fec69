"""Lines of a verification: the name of a check, its outcome and its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final

from paddock.frozen import frozen


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
