"""The clock for waits and measurements. A test can replace it."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Final, Protocol

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class Clock(Protocol):
    """What the module ``time`` has."""

    def monotonic(self) -> float: ...
    def time(self) -> float: ...
    def sleep(self, seconds: float, /) -> None: ...


current: Clock = time


def monotonic() -> float:
    """Return seconds that only grow, to measure how long something took."""
    return current.monotonic()


def sleep(seconds: float) -> None:
    current.sleep(seconds)


def now() -> datetime:
    """Return the time on this computer, which may be wrong."""
    return datetime.fromtimestamp(current.time(), UTC)


class Wait:
    """A wait by polling: ask, pause and ask again until a number of seconds has passed."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._seconds = seconds
        self._start = current.monotonic()

    @property
    def lasted(self) -> float:
        """The seconds since the wait began."""
        return current.monotonic() - self._start

    @property
    def left(self) -> float:
        """The seconds that are left, at least 0."""
        return max(self._seconds - self.lasted, 0.0)

    @property
    def is_over(self) -> bool:
        return self.lasted >= self._seconds

    def pause(self) -> None:
        """Pause before the next question: a tenth of the time so far, and at most a second.

        So a wait lasts at most a tenth longer than needed, and a long one asks once a second.
        """
        sleep(min(max(self.lasted / 10, _FIRST_PAUSE), _LONGEST_PAUSE))
