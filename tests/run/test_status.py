"""The texts of a status."""

from __future__ import annotations

import pytest

from paddock.run.status import _used


@pytest.mark.parametrize(
    ("size", "used", "text"),
    [
        (2_040_000_000, 24_576, "24.0K of 1.9G"),
        (2_040_000_000, 0, "0.0K of 1.9G"),
        (10 << 30, 1 << 30, "1.0G of 10.0G"),
        (3 << 40, 5 << 20, "5.0M of 3.0T"),
    ],
)
def test_a_small_state_is_not_shown_as_nothing(size: int, used: int, text: str) -> None:
    assert _used((size, used)) == text
