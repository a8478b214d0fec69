from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.file.agent_id import AgentId
from paddock.places.proxmox.node.notes import Mark, Role

WORD = st.from_regex(r"[A-Za-z0-9+/=-]{1,40}", fullmatch=True)
NAME = st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True)
MARKS = st.builds(
    Mark,
    role=st.sampled_from(Role),
    agent=st.none() | st.builds(AgentId, st.just("") | NAME, NAME),
    made_from=st.none() | WORD,
    template=st.none() | WORD,
    epoch=st.none() | st.integers(1, 99),
    host_key=st.none() | WORD,
)


@given(MARKS, st.text(st.characters(exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")))
def test_a_mark_is_read_back_from_any_notes(mark: Mark, notes: str) -> None:
    if "paddock: " not in notes:
        assert Mark.from_notes(mark.written_into(notes)) == mark


@given(MARKS, MARKS)
def test_a_new_mark_replaces_the_old_one_and_keeps_the_notes(old: Mark, new: Mark) -> None:
    notes = new.written_into(f"mine\n{old}\nalso mine\n")
    assert notes == f"mine\n{new}\nalso mine"


@given(st.text())
def test_notes_without_a_mark_have_none(notes: str) -> None:
    assert Mark.from_notes(notes) is None


@pytest.mark.parametrize(
    "line",
    [
        "paddock: v=3 agent=a role=pet",
        "paddock: agent=a role=pet",
        "paddock: v=1 agent=a role=horse",
        "paddock: v=1 agent=a role=pet agent=b",
        "paddock: v=1 role=template epoch=soon",
        "paddock: v=1 agent=a role=pet\npaddock: v=1 agent=a role=cattle",
    ],
)
def test_a_broken_or_double_mark_is_not_read(line: str) -> None:
    assert Mark.from_notes(line) is None


def test_a_mark_holds_two_host_keys_during_an_exchange() -> None:
    assert Mark(Role.CATTLE, host_key="AAAAold,AAAAnew").host_keys == ("AAAAold", "AAAAnew")
    assert Mark(Role.CATTLE).host_keys == ()


def test_unknown_words_of_a_later_version_are_ignored() -> None:
    assert Mark.from_notes("paddock: v=1 role=pet colour=green") == Mark(Role.PET)


@pytest.mark.parametrize(
    ("line", "newer"),
    [
        ("paddock: v=3 role=pet", True),
        ("paddock: role=pet v=12", True),
        ("paddock: v=2 role=pet\npaddock: v=3 role=pet", True),
        ("paddock: v=2 role=horse", False),
        ("paddock: v=1 role=pet", False),
        ("paddock: v=³ role=pet", False),
        ("paddock: v=soon role=pet", False),
        ("paddock: role=pet", False),
        ("v=3", False),
    ],
)
def test_a_mark_of_a_newer_version_is_told_from_a_broken_one(line: str, newer: bool) -> None:
    assert (Mark.of_newer_version(f"mine\n{line}") is not None) == newer
