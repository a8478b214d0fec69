"""Which images are known to have no agent in them."""

from __future__ import annotations

import pytest

from paddock.file.rules.shapes import is_distribution


@pytest.mark.parametrize(
    ("image", "known"),
    [
        ("ubuntu:24.04", True),
        ("ubuntu", True),
        ("debian@sha256:" + "0" * 64, True),
        ("docker.io/library/ubuntu:24.04", True),
        ("library/debian:12-slim", True),
        ("localhost:5000/ubuntu:24.04", True),
        ("registry.access.redhat.com/ubi9/ubi-minimal:latest", True),
        ("python:3.12-slim", True),
        ("nousresearch/hermes-agent:latest", False),
        ("localhost:5000/hermes", False),
        ("someone/ubuntu:24.04", False),
        ("localhost/ubuntu-with-hermes", False),
    ],
)
def test_a_distribution_is_known_by_its_name_in_every_registry(image: str, known: bool) -> None:
    assert is_distribution(image) == known
