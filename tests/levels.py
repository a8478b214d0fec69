"""The two levels of the tests: ./test, and ./test --all."""

from __future__ import annotations

import os
from typing import Final

import pytest

LEVEL: Final = os.environ.get("PADDOCK_LEVEL", "default")

# Marks a test that only ./test --all runs.
slow_proof: Final = pytest.mark.skipif(LEVEL != "all", reason="a slow proof; ./test --all runs it")


def by_level(default: int, all_: int) -> int:
    """Choose how many examples a test tries, or how many steps lie between two tries."""
    return all_ if LEVEL == "all" else default
