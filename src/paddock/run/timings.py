"""Compare the durations of phases between past runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock.run.journal import PastRun
from paddock.run.table import columns


def table(runs: Sequence[PastRun]) -> str:
    """Return a row per phase and a column per run, in seconds; phases in the order they first occurred."""
    if not runs:
        return "no run with changes is recorded yet"
    phases = list(dict.fromkeys((step.agent, step.id) for run in runs for step in run.steps))
    seconds = [_seconds(run) for run in runs]
    header = ["agent", "phase", *(f"{run.verb} {run.started:%H:%M:%S}" for run in runs)]
    rows = [
        [agent, phase, *(f"{each[agent, phase]:.1f}" if (agent, phase) in each else "" for each in seconds)]
        for agent, phase in phases
    ]
    total = ["", "total", *(f"{sum(each.values()):.1f}" for each in seconds)]
    outcome = ["", "", *(run.outcome for run in runs)]
    return columns([header, *rows, total, outcome])


def as_data(runs: Sequence[PastRun]) -> list[dict[str, Any]]:
    """Return the runs as data for JSON."""
    return [
        {
            "verb": run.verb,
            "started": run.started.isoformat(),
            "outcome": run.outcome,
            "steps": [{"agent": step.agent, "id": step.id, "seconds": step.seconds} for step in run.steps],
        }
        for run in runs
    ]


def _seconds(run: PastRun) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], float] = {}
    for step in run.steps:
        sums[step.agent, step.id] = sums.get((step.agent, step.id), 0.0) + step.seconds
    return sums
