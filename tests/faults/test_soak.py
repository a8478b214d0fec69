"""The machine of a busy agent is recreated many times: nothing is lost or left behind, nothing becomes slower."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faults.soak import soak
from levels import by_level
from live.node import Node


@pytest.mark.live
def test_many_cycles_of_a_busy_agent_lose_and_leak_nothing(live_node: Node, show_table: Callable[[str], None]) -> None:
    found = soak(live_node, by_level(3, 100))
    show_table(found.table())
    assert found.records > 0
    assert found.faults == []
