"""What earlier versions deployed on a node is recognised: recorded containers, marks, volumes and machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployed import PaperNode, paper_node
from places.node import play_ssh


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PaperNode:
    found = paper_node(tmp_path)
    play_ssh(monkeypatch, found.node)
    return found


@pytest.mark.parametrize("name", ["web", "box"])
def test_up_finds_nothing_to_do_on_a_recorded_node(deployed: PaperNode, name: str) -> None:
    plan = deployed.agent(name).plan_up()
    assert plan.refusals == ()
    # A version that renders another bundle configures the agent again, and changes nothing else.
    assert {step.id for step in plan.steps} <= {"agent.configure", "agent.answer"}


@pytest.mark.parametrize(("name", "volume"), [("web", "vm-100-disk-1"), ("box", "vm-103-disk-1")])
def test_a_recorded_machine_and_its_state_belong_to_their_agent(deployed: PaperNode, name: str, volume: str) -> None:
    seen = deployed.agent(name).observe()
    assert seen.machine.status == "running"
    assert seen.machine.state == f"local-lvm:{volume}"
    assert seen.agent
    assert seen.agent.state_of == name
    assert seen.agent.active
