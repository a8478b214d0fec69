"""The examples are valid, and differ only in where things are."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.spec.load import load
from paddock.spec.models import AgentSpec

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
ABOUT_WHERE = {"place", "runtime", "machine", "state", "mounts", "container"}


def what(agent: AgentSpec) -> dict[str, object]:
    return agent.model_dump(exclude=ABOUT_WHERE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_valid(path: Path) -> None:
    assert load(path).spec.agents.keys() == {"hermes"}


def test_they_differ_only_in_where_things_are() -> None:
    first, *others = (what(load(path).spec.agents["hermes"]) for path in EXAMPLES)
    assert others
    assert all(other == first for other in others)
