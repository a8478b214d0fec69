"""Comparing the texts of two backups."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from paddock.backups.history import Change, changes, difference

TEXTS = st.dictionaries(st.sampled_from(["a.md", "b.md"]), st.text(alphabet="ab\n\r\x85\u2028\x1b"))


@given(TEXTS, TEXTS)
def test_changes_count_the_lines_that_a_diff_shows(before: dict[str, str], after: dict[str, str]) -> None:
    for change in changes(before, after):
        told = difference(change.text, before, after, ("1", "2")).split("\n")[2:]
        signs = Counter(line[:1] for line in told)
        # A line that moved is in the diff twice.
        assert signs["+"] - change.added == signs["-"] - change.removed >= 0
        assert "\x1b" not in "".join(told)


@given(TEXTS)
def test_equal_texts_have_no_changes(texts: dict[str, str]) -> None:
    assert list(changes(texts, texts)) == []
    assert list(changes({"a.md": "one\n"}, {"a.md": "one"})) == []


def test_a_text_of_too_many_lines_is_not_compared_line_by_line() -> None:
    long = {"a.md": "x\n" * 6000}
    assert difference("a.md", {}, long, ("1", "2")).endswith("\ntoo long to compare: 0 and 6000 lines")
    assert list(changes({}, long)) == [Change("a.md", "new", 6000, 0)]


def test_a_path_cannot_break_the_line_of_a_diff() -> None:
    told = difference("a\n+++ b", {}, {"a\n+++ b": "x"}, ("1", "2"))
    assert told.split("\n")[:2] == ["--- a\\n+++ b (1)", "+++ a\\n+++ b (2)"]
