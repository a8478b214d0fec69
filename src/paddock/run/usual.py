"""How long steps usually take, from the journals of past runs."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from paddock.run.journal import PastRun


def usual_seconds(runs: Iterable[PastRun]) -> dict[str, float]:
    """Return the median duration of each kind of step."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for step in run.steps:
            found.setdefault(step.id, []).append(step.seconds)
    return {step_id: median(seconds) for step_id, seconds in found.items()}
