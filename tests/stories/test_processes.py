"""Processes of an account, without root: Hermes in the foreground of `paddock run`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from live.node import Node
from paddock.demo import FACT, QUESTION, VERSION, Stage, process_stage, running_agent
from pvebox.stage import stage_folder
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
    with running_agent(stage):
        assert FACT in node.ask(f"Remember: {FACT}")
        # All files belong to one account here, so locked files can be unlocked; the command still refuses.
        node.paddock("exec", "hermes", "--", "hermes", "config", "set", "model.default", "other", fails=True)
        get = ("exec", "hermes", "--", "hermes", "config", "get", "model.default")
        assert node.paddock(*get).stdout == "stand-in\n"
        status = json.loads(node.paddock("status", "--json", "--set", "agents.hermes.version=0.18.2").stdout)[0]
        assert (status["version"], status["version_in_file"]) == (VERSION, "0.18.2")
        node.paddock("backup", "hermes")
    node.paddock("down")
    assert [path.name for path in home.iterdir()] == ["state"]
    with running_agent(stage):
        assert node.ask(QUESTION) == FACT

    # Without its memory the agent knows nothing, so the answer comes from there.
    (home / "state" / MEMORY).unlink()
    with running_agent(stage):
        assert node.ask(QUESTION) == "I do not know."
    node.paddock("down")
    node.paddock("forget", "hermes", "--name", "hermes")
    assert not (home / "state").exists()
    node.paddock("restore", "hermes", "--yes")
    with running_agent(stage):
        assert node.ask(QUESTION) == FACT
    node.paddock("down")
    assert FACT in (home / "state" / MEMORY).read_text()
