"""Verbs that only look work in the states that killed runs leave. The crash matrix looks after each of its kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.account_scenarios import agent, upgraded
from faults.account_world import NEW, OLD, AccountWorld
from faults.looks import LOOKS, crashes, silent_answer
from paddock.base.process import Result
from paddock.channels.onboard import answer_of, sent
from paddock.core import version
from paddock.core.converge import plan
from paddock.file.agent_id import AgentId
from paddock.kinds.service import ServiceSpec
from paddock.onboard.facts.main import Look
from paddock.onboard.request import AskAgent
from paddock.runtimes.process.runtime import ForegroundProcess
from paddock.verbs import status
from paddock.verbs.status import Status

SERVICE = {"kind": "service", "place": "here", "command": ["true"]}


@pytest.fixture
def goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AccountWorld:
    """A run was killed right after it had recorded that the agent goes back."""
    world = AccountWorld(tmp_path, monkeypatch)
    upgraded(world)
    version.begin_rollback(agent(world, NEW))
    return world


def test_an_agent_on_its_way_back_can_be_looked_at(goes_back: AccountWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Status.of(agent(goes_back, NEW)).drift == f"bee is on its way back from {NEW} to {OLD}"
    assert [crashes(each) for each in goes_back.agents()] == [[]]
    assert not plan(agent(goes_back, NEW)).empty
    monkeypatch.setattr(status, "plan_up", unexpected)
    assert crashes(agent(goes_back, NEW)) == ["`status` crashes: LookupError: nobody expects this"]


def unexpected(*_: object) -> None:
    raise LookupError("nobody expects this")


def test_a_silent_machine_answers_in_the_form_that_the_programs_print() -> None:
    runtime = ForegroundProcess(AgentId("home", "bee"), ServiceSpec.model_validate(SERVICE))
    asking, looking = AskAgent({"port": 1}), Look(runtime.inspect(), {})
    reply, facts = (answer_of(Result((), 0, silent_answer(*sent(each)), "", 0), "host") for each in (asking, looking))
    assert reply.value == {"refused": "nobody answers"}
    assert "processes" in facts.value
    assert silent_answer(*sent(runtime.observe(()))) == ""
    assert set(LOOKS) == {"status", "plan", "verify", "logs"}
