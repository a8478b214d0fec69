"""The images of an agent, as its machine reports them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.onboard.engine import images
from paddock.onboard.program.frozen import decoded
from paddock.onboard.program.programs import Done
from paddock.onboard.program.refusal import Refusal
from paddock.plan.container import Image, ImagesSeen

NAME = "localhost/paddock/kept:4f8a-2026-08-01T10.00.00Z"


def image_of(printed: str) -> Image | None:
    """Return the image that is reported when the engine prints this about it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "run", lambda argv: Done(0, printed, ""))
        found: Image | None = decoded(Image | None, images.described("docker", "debian:12"))
        return found


def known(**about: Any) -> str:
    return json.dumps([about])


def test_an_image_has_its_digest_and_the_name_and_the_time_of_paddock() -> None:
    printed = known(Id="sha256:4f8a", RepoTags=["debian:12", NAME], RepoDigests=["debian@sha256:77", "x@sha256:78"])
    assert image_of(printed) == Image("4f8a", "sha256:77", "2026-08-01T10:00:00Z", NAME)


@pytest.mark.parametrize("about", [{}, {"RepoTags": None, "RepoDigests": None}, {"RepoTags": ["debian:12"]}])
def test_what_is_not_known_of_an_image_is_empty(about: dict[str, Any]) -> None:
    image = image_of(known(Id="4f8a", **about))
    assert image == Image("4f8a")
    assert image.shown == "sha256:4f8a"


def test_an_image_that_was_there_before_has_no_time() -> None:
    assert image_of(known(Id="4f8a", RepoTags=["localhost/paddock/kept:4f8a"])) == Image(
        "4f8a", name="localhost/paddock/kept:4f8a"
    )


def test_an_image_that_the_engine_does_not_have_is_none() -> None:
    assert image_of("[]\n") is None
    assert image_of("") is None
    with pytest.raises(Refusal, match="docker image inspect printed no JSON"):
        image_of("Error: no such image")


@given(st.text(min_size=1), st.lists(st.text(), max_size=3), st.lists(st.text(), max_size=3))
def test_any_names_are_an_image_with_an_id(id: str, tags: list[str], digests: list[str]) -> None:  # noqa: A002
    image = image_of(known(Id=id, RepoTags=tags, RepoDigests=digests))
    assert image is not None
    assert image.id == id.removeprefix("sha256:")
    assert image.name == "" or (image.name in tags and image.name.startswith("localhost/paddock/"))


def test_a_container_is_outdated_only_if_both_images_are_known() -> None:
    old, new = Image("a"), Image("b")
    assert ImagesSeen(present=new, runs=old).outdated
    assert not ImagesSeen(present=old, runs=old).outdated
    assert not ImagesSeen(present=new).outdated
    assert not ImagesSeen(runs=old).outdated
