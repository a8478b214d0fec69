"""The levels of ./test: --quick, the default, and --all."""

from __future__ import annotations

import os
from typing import Final

import pytest

LEVEL: Final = os.environ.get("PADDOCK_LEVEL", "default")

# Marks a test that takes too long for the default run.
slow_proof: Final = pytest.mark.skipif(LEVEL != "all", reason="a slow proof; ./test --all runs it")

# Marks a test that installs packages. --quick works without a network.
needs_index: Final = pytest.mark.skipif(LEVEL == "quick", reason="needs the package index; ./test runs it")


def by_level(quick: int, default: int, all_: int) -> int:
    """Choose how many examples a test tries, or how many steps lie between two tries."""
    return {"quick": quick, "all": all_}.get(LEVEL, default)
