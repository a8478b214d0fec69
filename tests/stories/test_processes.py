"""Processes of an account, without root: Hermes in the foreground of `paddock run`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.installed import install_code
from live.node import Node
from paddock.demo import FACT, QUESTION, Stage, process_stage, running_agent
from pvebox.standins.stage import stage_folder
from stories.story import MEMORY, written

pytestmark = pytest.mark.agent


@pytest.fixture
def stage() -> Iterator[Stage]:
    with stage_folder() as folder, process_stage(folder) as found:
        yield found


def test_the_memory_survives_the_agent_and_its_state(stage: Stage) -> None:
    node = Node(stage)
    written(node, node.file(), "paddock")
    home = Path(stage.environment["XDG_DATA_HOME"]) / "paddock/hermes"
    install_code(stage)
    with running_agent(stage):
        assert FACT in node.ask(f"Remember: {FACT}")
        node.paddock("backup", "hermes")
    node.paddock("down")
    assert [path.name for path in home.iterdir()] == ["state"]
    install_code(stage)  # `down` has removed it
    with running_agent(stage):
        assert node.ask(QUESTION) == FACT

    # Without its memory the agent knows nothing, so the answer comes from there.
    (home / "state" / MEMORY).unlink()
    with running_agent(stage):
        assert node.ask(QUESTION) == "I do not know."
    node.paddock("down")
    node.paddock("forget", "hermes", "--name", "hermes")
    assert not (home / "state").exists()
    install_code(stage)
    node.paddock("restore", "hermes", "--yes")
    with running_agent(stage):
        assert node.ask(QUESTION) == FACT
    node.paddock("down")
    assert FACT in (home / "state" / MEMORY).read_text()
