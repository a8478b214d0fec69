"""Medians with intervals, and aims."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

WANTED: Final = 0.95


@dataclass(frozen=True)
class Spread:
    """The median of some measurements, with an interval that contains the true median with some probability.

    The interval ends at two of the sorted measurements (order statistics), so it assumes nothing about how they are
    distributed. With fewer than six measurements it is their whole range, and covers less than 95 %.
    """

    median: float
    low: float
    high: float
    count: int
    covers: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise the measurements."""
        ordered, count = sorted(values), len(values)
        drop = max((each for each in range((count + 1) // 2) if _coverage(count, each) >= WANTED), default=0)
        low, high = ordered[drop], ordered[count - 1 - drop]
        return cls(statistics.median(ordered), low, high, count, _coverage(count, drop))

    def shown(self, digits: int = 1) -> str:
        """Return the median, and the interval if there are several measurements."""
        if self.count == 1:
            return f"{self.median:.{digits}f}"
        return f"{self.median:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def _coverage(count: int, drop: int) -> float:
    """Return the probability that the median is within the measurements without ``drop`` at either end."""
    outside = sum(math.comb(count, each) for each in range(drop + 1))
    return 1 - 2 * outside / float(2**count)


@dataclass(frozen=True)
class Aim:
    """A figure that a benchmark wants to be at most a limit."""

    what: str
    value: float
    limit: float

    @property
    def met(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.2f}, at most {self.limit:g}: {'met' if self.met else 'MISSED'}"

    def as_data(self) -> dict[str, Any]:
        return {"what": self.what, "value": round(self.value, 3), "limit": self.limit, "met": self.met}
