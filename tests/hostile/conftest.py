"""Fixture of the hostile tests: a machine to attack, removed when the test ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hostile.ground import Machine, machine


@pytest.fixture
def ground() -> Iterator[Machine]:
    with machine() as made:
        yield made
