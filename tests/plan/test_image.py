"""The records about images, which a machine sends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.plan.container import Image, ImagesSeen

NAME = "localhost/paddock/kept:4f8a-2026-08-01T10.00.00Z"


def test_a_record_names_an_image() -> None:
    record = f"4f8a sha256:77 2026-08-01T10:00:00Z {NAME}"
    assert Image.from_record(record) == Image("4f8a", "sha256:77", "2026-08-01T10:00:00Z", NAME)


def test_words_that_are_not_known_are_empty() -> None:
    image = Image.from_record("4f8a - - -")
    assert image == Image("4f8a")
    assert image.shown == "sha256:4f8a"


@given(st.text())
def test_any_text_is_an_image_with_an_id_or_none(record: str) -> None:
    image = Image.from_record(record)
    assert image is None or (image.id and len(record.split(" ")) == 4)


def test_a_container_is_outdated_only_if_both_images_are_known() -> None:
    old, new = Image("a"), Image("b")
    assert ImagesSeen(present=new, runs=old).outdated
    assert not ImagesSeen(present=old, runs=old).outdated
    assert not ImagesSeen(present=new).outdated
    assert not ImagesSeen(runs=old).outdated
