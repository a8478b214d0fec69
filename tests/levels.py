"""The two levels of the tests, ./test and ./test --all, and the mark of the hostile ones."""

from __future__ import annotations

import os
from typing import Final

import pytest

LEVEL: Final = os.environ.get("PADDOCK_LEVEL", "default")

# Marks a test that only ./test --all runs.
slow_proof: Final = pytest.mark.skipif(LEVEL != "all", reason="a slow proof; ./test --all runs it")


def is_hostile(nodeid: str) -> bool:
    """Tell whether a test attacks Paddock: its folder, its file or its own name says "hostile"."""
    return "hostile" in nodeid.partition("[")[0]


def by_level(default: int, all_: int) -> int:
    """Choose how many examples a test tries, or how many steps lie between two tries."""
    return all_ if LEVEL == "all" else default
