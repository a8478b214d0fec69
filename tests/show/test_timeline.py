"""The picture of past runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cases import agrees, golden, read_case
from paddock.show.journal import PastRun, PastStep
from paddock.show.table import cells
from paddock.show.timings import svg

SVG = "{http://www.w3.org/2000/svg}"


def runs_of(case: dict[str, Any]) -> list[PastRun]:
    """Return the runs of a case: steps as agent, id, begin, seconds, title."""
    started = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    return [
        PastRun(
            run["verb"], started + timedelta(hours=at), run["outcome"], tuple(_step(*step) for step in run["steps"])
        )
        for at, run in enumerate(case["runs"])
    ]


def _step(agent: str, step_id: str, begins: float, seconds: float, title: str = "") -> PastStep:
    return PastStep(agent, step_id, seconds, begins, title)


@pytest.mark.parametrize("path", golden("timeline"))
def test_the_picture_of_runs(path: Path) -> None:
    case = read_case(path)
    picture = svg(runs_of(case))
    root = ElementTree.fromstring(picture)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    bars = [each for each in root.iter(f"{SVG}rect") if each.attrib.get("height") == "14"]
    texts = [(float(each.attrib["x"]), float(each.attrib["y"]), each.text or "") for each in root.iter(f"{SVG}text")]
    assert all(left > 0 and left + cells(text) * 6 < width and 0 < top < height for left, top, text in texts)
    for left, top, text in texts:
        beside = [bar for bar in bars if 0 < top - float(bar.attrib["y"]) < 14 and float(bar.attrib["x"]) > left]
        overlapped = [bar for bar in beside if left + cells(text) * 6 > float(bar.attrib["x"])]
        assert not overlapped, f"{text!r} overlaps a bar"
    assert agrees(path, case, "svg", picture.split("\n"))


def test_the_picture_says_what_it_is_to_those_who_cannot_see_it() -> None:
    step = _step("hermes", "agent.answer", 0.5, 12.0, "wait until <hermes> answers")
    root = ElementTree.fromstring(svg([PastRun("up", datetime.now(UTC), "done", (step,))]))
    assert root.attrib["role"] == "img"
    named = {each.attrib["id"]: each.text for each in root if "id" in each.attrib}
    assert set(root.attrib["aria-labelledby"].split()) == set(named)
    assert "up took 12.5 s" in str(named["desc"])
    assert "wait until <hermes> answers" in [each.text for each in root.iter(f"{SVG}text")]


def test_without_runs_the_picture_says_so() -> None:
    assert "no run with changes is recorded yet" in svg([])
    ElementTree.fromstring(svg([]))
