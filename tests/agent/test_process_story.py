"""The demo with the real Hermes Agent, without root: it remembers after a restart, and forgets without its state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.installed import install_code
from paddock.demo import FACT, QUESTION, VERSION, Stage, process_stage, running_agent
from pvebox.stage import stage_folder

pytestmark = pytest.mark.agent


@pytest.fixture
def stage() -> Iterator[Stage]:
    with stage_folder() as folder, process_stage(folder) as found:
        yield found


def test_the_memory_survives_down_and_is_lost_with_its_files(stage: Stage) -> None:
    install_code(stage)
    with running_agent(stage):
        assert stage.paddock("ask", "hermes", QUESTION).strip() == "I do not know."
        assert FACT in stage.paddock("ask", "hermes", f"Remember: {FACT}")
        # All files belong to one account here, so locked files can be unlocked; the command still refuses.
        with pytest.raises(SystemExit, match="ended with code 1"):
            stage.paddock("exec", "hermes", "--", "hermes", "config", "set", "model.default", "other")
        assert stage.paddock("exec", "hermes", "--", "hermes", "config", "get", "model.default").strip() == "stand-in"
        status = json.loads(stage.paddock("status", "--json", "--set", "agents.hermes.version=0.18.2"))[0]
        assert (status["version"], status["version_in_file"]) == (VERSION, "0.18.2")
    stage.paddock("down")
    home = Path(stage.environment["XDG_DATA_HOME"]) / "paddock/hermes"
    assert sorted(path.name for path in home.iterdir()) == ["state"]
    install_code(stage)
    with running_agent(stage):
        assert stage.paddock("ask", "hermes", QUESTION).strip() == FACT
    for file in (home / "state/home/.hermes/memories").iterdir():
        file.unlink()
    with running_agent(stage):
        assert stage.paddock("ask", "hermes", QUESTION).strip() == "I do not know."
