from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.file.models.quantities import Duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("5s", 5), ("2m", 120), ("1h", 3600), ("1.5 h", 5400), ("1d", 86400)]
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert Duration.parse(text).seconds == seconds


@pytest.mark.parametrize("text", ["", "5", 5, "s", "-1s", "1 week", None, True, "\u0665s", "1e9s"])
def test_a_text_without_number_and_unit_is_not_a_duration(text: object) -> None:
    with pytest.raises(ValueError, match="a duration needs"):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["0s", "0ms", "367d", "999999999999h"])
def test_a_duration_has_a_minimum_and_a_maximum(text: str) -> None:
    with pytest.raises(ValueError, match="a duration must be"):
        Duration.parse(text)


@given(st.integers(1, 300), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_a_printed_duration_is_read_as_the_same_duration(number: int, unit: str) -> None:
    duration = Duration.parse(f"{number}{unit}")
    assert Duration.parse(str(duration)) == pytest.approx(duration)
