"""A simulated clock. `monkeypatch.setattr(clock, "current", SimulatedClock())` lets Paddock wait without time."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass
class SimulatedClock:
    """A clock that waiting moves, without taking time. Its date goes on too: names with a time in them stay unique."""

    passed: float = 0.0  # seconds since the test began

    def monotonic(self) -> float:
        return self.passed

    def time(self) -> float:
        return time.time() + self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds
