"""The texts of a status."""

from __future__ import annotations

from dataclasses import fields

import pytest

from paddock.verbs.status import Status, _used, table


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


def _row(agent: str, health: str = "ok") -> Status:
    unknown = {each.name: "-" for each in fields(Status) if each.name != "newer"}
    return Status(**{**unknown, "agent": agent, "health": health})


def _agents(text: str) -> list[list[str]]:
    return [line.split()[1:] for line in text.split("\n") if line.startswith("agent ")]


@pytest.mark.parametrize(
    ("width", "tables"),
    [
        (None, [["ant", "bee", "cat", "dog"]]),
        (80, [["ant", "bee", "cat"], ["dog"]]),
        (60, [["ant"], ["bee"], ["cat"], ["dog"]]),
    ],
)
def test_a_table_wider_than_the_terminal_becomes_several(width: int | None, tables: list[list[str]]) -> None:
    rows = [_row("ant"), _row("bee", "x" * 40), _row("cat"), _row("dog", "y" * 100)]
    found = table(rows, width)
    assert _agents(found) == tables
    assert found.count("\n\n") == len(tables) - 1
