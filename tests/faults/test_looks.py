"""Verbs that only look work in the states that killed runs leave. The crash matrix looks after each of its kills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faults.account_scenarios import agent, upgraded
from faults.account_world import NEW, OLD, AccountWorld
from faults.looks import LOOKS, crashes, silent_answer
from paddock.core import version
from paddock.core.converge import plan
from paddock.verbs import status
from paddock.verbs.status import Status


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
    assert json.loads(silent_answer(b'{"port": 1}')) == {"refused": "nobody answers"}
    assert "processes" in json.loads(silent_answer(b'{"inside": {}}'))
    assert set(LOOKS) == {"status", "plan", "verify", "logs"}
