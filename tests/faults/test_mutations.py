"""What others do at any point of a run does no harm. With one protection switched off, the same does harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from faults.disturbances import DISTURBANCES, Disturbance
from faults.matrix import Outcome, Stage
from levels import LEVEL


def outcomes(disturbance: Disturbance, stage: Stage) -> list[Outcome]:
    return [
        stage.disturb(number, disturbance.happen, disturbance.harm)
        for number, point in enumerate(stage.points)
        if (disturbance.at(point) if LEVEL == "all" else str(point) == disturbance.worst)
    ]


@pytest.mark.parametrize("disturbance", DISTURBANCES, ids=lambda each: each.name.replace(" ", "-"))
def test_each_protection_prevents_harm_that_is_reported_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disturbance: Disturbance, show_table: Callable[[str], None]
) -> None:
    stage = Stage(disturbance.scenario, tmp_path, monkeypatch)
    protected = outcomes(disturbance, stage)
    assert [str(each) for each in protected if each.lost] == []
    monkeypatch.setattr(*disturbance.switch_off)
    harmed = [each for each in outcomes(disturbance, stage) if each.lost]
    show_table(f"{disturbance.name} off: {len(harmed)} of {len(protected)} points do harm, and none with it")
    assert harmed, f"without the {disturbance.name} nothing is lost, so this test could not fail"
