"""The demo with the real Hermes Agent, without root: it remembers after a restart, and forgets without its state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.installed import install_code
from levels import slow_proof
from paddock.demo import FACT, QUESTION, Stage, process_stage, running_agent
from pvebox.stage import stage_folder

pytestmark = pytest.mark.agent


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with stage_folder() as folder, process_stage(folder) as found:
        yield found


def agent_folder(stage: Stage) -> Path:
    return Path(stage.environment["XDG_DATA_HOME"]) / "paddock/hermes"


def test_the_memory_survives_down(stage: Stage) -> None:
    install_code(stage)
    with running_agent(stage):
        assert stage.paddock("ask", "hermes", QUESTION).strip() == "I do not know."
        assert FACT in stage.paddock("ask", "hermes", f"Remember: {FACT}")
    stage.paddock("down")
    home = agent_folder(stage)
    assert sorted(path.name for path in home.iterdir()) == ["state"]
    install_code(stage)
    with running_agent(stage):
        assert stage.paddock("ask", "hermes", QUESTION).strip() == FACT


@slow_proof
def test_the_memory_is_lost_with_its_files(stage: Stage) -> None:
    """The agent has no other copy from which it answered. It continues the test above."""
    for file in (agent_folder(stage) / "state/home/.hermes/memories").iterdir():
        file.unlink()
    with running_agent(stage):
        assert stage.paddock("ask", "hermes", QUESTION).strip() == "I do not know."
