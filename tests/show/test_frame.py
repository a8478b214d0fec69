"""The frame that a terminal shows, as text for terminals of several sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cases import agrees, golden, read_case
from paddock.show.frame import Board, Row, Size, frame, record, text_columns
from paddock.show.table import cells, cut


def played(case: dict[str, Any]) -> Board:
    """Return a board after the events of a case."""
    board = Board(lambda: case.get("usual", {}))
    running: dict[tuple[str, str], Row] = {}
    for at, event, agent, *words in case["events"]:
        match event:
            case "expect":
                board.expect(agent)
            case "plan":
                board.plan(agent, [(step, case["steps"][step]) for step in words], at)
            case "begin":
                running[agent, words[0]] = board.begin(agent, words[0], case["steps"][words[0]], at)
            case "wait":
                running[agent, "wait"] = board.begin(agent, "", words[0], at, passing=True)
            case "output":
                running[agent, words[0]].output = words[1]
            case "done" | "failed":
                board.end(agent, running[agent, words[0]], at, failed=event == "failed")
            case "record":
                list(board.record(agent))
            case "note":
                assert board.note(agent, words[0])
            case _:
                raise ValueError(event)
    return board


@pytest.mark.parametrize("path", golden("frame"))
def test_a_frame_fits_the_terminal_and_shows_what_runs(path: Path) -> None:
    case = read_case(path)
    board, found = played(case), {}
    for size in case["frames"]:
        width, height = map(int, size.split("x"))
        lines = frame(board.sections, Size(width, height), case["now"], named=case["several"])
        texts = [line.plain(width) for line in lines]
        assert len(texts) < max(height, 2), "the frame is taller than the terminal"
        assert all(cells(text) < max(width, 2) for text in texts), "a line is wider than the terminal"
        found[size] = texts
    assert agrees(path, case, "frames", found)


def test_the_times_are_in_the_same_column_whatever_the_titles_are() -> None:
    board = Board(lambda: {"a": 20.0, "b": 20.0})
    for agent, title in (("one", "short"), ("two", "long " * 40), ("three", "日本語 " * 20), ("four", "e\u0301 " * 60)):
        board.end(agent, board.begin(agent, "a", title, 0.0), 10.0)
        board.begin(agent, "b", title, 10.0)
    for width in (40, 80, 120, 200):
        column = text_columns(width)
        for line in frame(board.sections, Size(width, 60), 15.0, named=True):
            text, times = line.parts(width)
            assert cells(text) <= column
            assert times.startswith(" ")
            assert times.split()[:2] in (["10.0", "s"], ["5", "s"], ["15", "s"]), times


def test_a_record_is_cut_only_if_it_does_not_fit_into_the_terminal() -> None:
    title = "  ✓ a-rather-long-agent-name: grow the root disk of machine 104 from 4G to 8G"
    assert record(title, 0.1, 120) == f"{title}  0.1 s"
    assert record(title, 0.1, 80) == "  ✓ a-rather-long-agent-name: grow the root disk of machine 104 from 4G…  0.1 s"


def test_the_record_of_a_long_title_is_one_line_with_its_whole_time() -> None:
    for width in (20, 80, 120):
        text = record("  ✓ " + "create a builder " * 20, 1234.56, width)
        assert text.endswith("…  1234.6 s")
        assert cells(text) < width


def test_a_single_step_is_shown_rather_than_folded() -> None:
    board = Board(dict)
    board.plan("one", [(letter, f"step {letter}") for letter in "abcdef"], 0.0)
    for letter in "abc":
        board.end("one", board.begin("one", letter, f"step {letter}", 0.0), 1.0)
    board.begin("one", "d", "step d", 1.0)
    for height in range(4, 9):
        texts = [line.text for line in frame(board.sections, Size(80, height), 2.0, named=False)]
        assert len(texts) <= height - 1
        assert not [text for text in texts if "… 1 " in text], texts


def test_the_time_left_is_not_guessed() -> None:
    board = Board(lambda: {"a": 60.0})
    board.plan("one", [("a", "known"), ("b", "unknown")], 0.0)
    board.begin("one", "a", "known", 0.0)
    texts = [line.plain(80) for line in frame(board.sections, Size(80, 24), 20.0, named=False)]
    assert "~40 s left" in texts[0]
    assert "left" not in texts[-1], "the sum has a step that no past run had"


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("short", 10, "short"),
        ("exactly", 7, "exactly"),
        ("too long", 5, "too …"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
        ("anything", 1, "…"),
        ("anything", 0, ""),
    ],
)
def test_a_text_is_cut_by_columns(text: str, most: int, expected: str) -> None:
    assert cut(text, most) == expected
    assert cells(expected) <= most
