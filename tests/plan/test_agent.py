"""Plans for the inside of a machine, as data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cases import agrees, golden, read_case
from paddock.plan import agent
from paddock.plan.agent import AgentSeen, AgentWant
from paddock.plan.container import ContainerWant


def wanted(container: dict[str, Any] | None = None, packages: Sequence[str] = (), **rest: Any) -> AgentWant:
    return AgentWant(container=ContainerWant(**container) if container else None, packages=frozenset(packages), **rest)


def seen_in(lines: str) -> AgentSeen:
    """A report as cases write it: a record a line."""
    pairs = (line.partition("=") for line in lines.split("\n") if line)
    return AgentSeen.from_records([(name, value) for name, _, value in pairs])


@pytest.mark.parametrize("path", golden("plan/agent"))
def test_plan(path: Path) -> None:
    case = read_case(path)
    want, seen = wanted(**case["want"]), seen_in(case["seen"])
    refused = agent.refusal("hermes", want, seen)
    steps = agent.up("hermes", want, seen, adopted=case.get("adopted", False))
    up = [f"{step.id} {step.risk}: {step.reason}" for step in steps]
    down = [f"{step.id} {step.risk}: {step.reason}" for step in agent.down("hermes", seen)]
    if refused:
        up = []
        assert agrees(path, case, "refused", [refused.reason, refused.hint]), refused
    assert agrees(path, case, "up", up), up
    assert agrees(path, case, "down", down), down


def test_what_cannot_be_read_is_nothing() -> None:
    assert AgentSeen.from_records([]) == AgentSeen()


def test_of_a_stopped_machine_nothing_is_claimed() -> None:
    want = AgentWant("t2", "g2", "s2", foreground=False)
    reasons = [step.reason for step in agent.up("hermes", want, AgentSeen(trees=frozenset({"t2"}), unread=True))]
    assert reasons[0] == "its machine was stopped, and what is on it could not be read"


def test_a_state_elsewhere_than_the_file_says_is_not_left_behind() -> None:
    want = AgentWant("t2", "g2", "s2", foreground=False, state="/srv/hermes")
    assert agent.refusal("hermes", want, AgentSeen.from_records([("state.at", "/srv/hermes")])) is None
    refusal = agent.refusal("hermes", want, AgentSeen.from_records([("state.at", "/var/lib/paddock/hermes")]))
    assert refusal
    assert "is /var/lib/paddock/hermes on its machine, and the file says /srv/hermes" in refusal.reason
