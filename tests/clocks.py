"""A simulated clock. `monkeypatch.setattr(clock, "current", SimulatedClock())` lets Paddock wait without time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class SimulatedClock:
    """A clock that only waiting moves."""

    passed: float = 0.0  # seconds since the test began
    began: float = field(default_factory=time.time)

    def monotonic(self) -> float:
        return self.passed

    def time(self) -> float:
        return self.began + self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds
