"""What the hostile tests share: a machine of their own, gone when the test ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hostile.ground import Machine, machine


@pytest.fixture
def ground() -> Iterator[Machine]:
    with machine() as made:
        yield made
