"""Golden cases that fail show a diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import agrees


@pytest.fixture(autouse=True)
def _compare_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PADDOCK_GOLDEN", raising=False)


def test_a_failing_golden_case_shows_the_lines_that_differ() -> None:
    case = {"up": ["pet.create", {"vmid": 105, "start": True}]}
    with pytest.raises(pytest.fail.Exception) as failed:
        agrees(Path("new.yaml"), case, "up", ["pet.create", {"vmid": 106, "start": True}])
    assert str(failed.value).splitlines() == [
        "--- new.yaml up, expected",
        "+++ new.yaml up, found",
        "@@ -1,4 +1,4 @@",
        " up:",
        " - pet.create",
        "-- vmid: 105",
        "+- vmid: 106",
        "   start: true",
    ]


def test_a_failing_golden_case_shows_values_that_differ_only_in_their_type() -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        agrees(Path("new.yaml"), {"up": [1]}, "up", (1,))
    assert str(failed.value).splitlines() == ["new.yaml up: expected [1]", "found (1,)"]


def test_a_golden_case_with_the_expected_value_passes() -> None:
    assert agrees(Path("new.yaml"), {"up": ["pet.create"]}, "up", ["pet.create"])
