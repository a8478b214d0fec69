"""After every change of the machine in place, `up` verifies the agent before it says "up and working"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.base.errors import PaddockError
from paddock.channels import Guest
from paddock.core.converge import up
from paddock.core.observe import Observation
from paddock.core.resolve import Located, Resolved, resolve
from paddock.plan.actions import AgentAction, AwaitAnswer, InstallPackages
from paddock.plan.agent import AgentSeen
from paddock.plan.step import Plan
from places.node import CATTLE, PET, Node, PaperAgent, play_ssh

# Changes of a machine in place, without a restart of the machine or the agent.
CHANGES: dict[str, dict[str, Any]] = {
    "cores": {"machine": {"cores": 3}},
    "memory": {"machine": {"memory": "1G"}},
    "network": {"machine": {"net": {"firewall": True}}},
    "disk": {"machine": {"disk": "9G"}},
    "tags": {"machine": {"tags": ["lab"]}},
    "notes": {"machine": {"description": "for the lab"}},
}


class Inhabited:
    """A node with a machine whose agent is installed as the file says. A test sets whether the agent works."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.node = Node(folder)
        play_ssh(monkeypatch, self.node)
        self.lacks_packages = False
        self.works = True
        self.looked = 0
        up(self.node.agent())
        self.node.side = self

    def look(self, agent: Located, guest: Guest, patience: float = 0.0) -> AgentSeen:
        want = resolve(agent).want()
        return AgentSeen(
            packages=frozenset[str]() if self.lacks_packages else want.packages,
            bundle_id=want.bundle_id,
            answered=want.bundle_id,
            secrets=want.secrets,
            state_of=agent.name,
            units={"paddock-bee-main.service": "active"},
        )

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        if isinstance(action, InstallPackages):
            self.lacks_packages = False
        if isinstance(action, AwaitAnswer):
            self.looked += 1
            if not self.works:
                raise PaddockError("bee did not become healthy: port 8642 does not accept connections")

    def is_healthy(self, agent: Resolved, seen: Observation) -> bool:
        return True  # the quick lines: this agent looks well, and does not answer

    def agent(self, **keys: Any) -> PaperAgent:
        return self.node.agent(**keys)

    def plan(self, **keys: Any) -> Plan:
        return self.agent(**keys).plan_up()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inhabited:
    return Inhabited(tmp_path, monkeypatch)


def expect_noticed(house: Inhabited, **keys: Any) -> None:
    """Assert that `up` fails because the agent is not healthy."""
    try:
        said = f"exit code 0, {up(house.agent(**keys))}"
    except PaddockError as error:
        said = error.message
    assert "did not become healthy" in said, f"`up` made a change, and reported about a broken agent: {said}"


@pytest.mark.parametrize("keys", CHANGES.values(), ids=list(CHANGES))
def test_up_fails_when_the_agent_is_broken_after_a_change_of_its_machine(
    house: Inhabited, keys: dict[str, Any]
) -> None:
    house.works = False
    plan = house.plan(**keys)
    assert plan.steps, "the plan has no step for the change"
    expect_noticed(house, **keys)
    assert [step.id for step in plan.steps][-1] == "agent.answer"


def test_up_fails_when_the_agent_is_broken_after_its_pet_was_protected_again(house: Inhabited) -> None:
    house.node.put(PET, protection=0)
    house.works = False
    expect_noticed(house)
    assert house.node.config(PET)["protection"] == 1


def test_up_fails_when_the_agent_is_broken_after_packages_were_installed(house: Inhabited) -> None:
    house.lacks_packages = True
    house.works = False
    expect_noticed(house, packages=["jq"])


@pytest.mark.parametrize("fault", ["lose", "answer"])
def test_up_verifies_a_change_whose_api_answer_was_lost(house: Inhabited, fault: str) -> None:
    """`up` observes again and its second plan is empty, because the change was made. It must verify nevertheless."""
    lose: Callable[[], None] = lambda: house.node.fault(fault, "596" if fault == "answer" else "")  # noqa: E731
    house.node.before("PUT", f"*/{CATTLE}/config", lose)
    house.works = False
    expect_noticed(house, machine={"cores": 3})


def test_up_verifies_a_change_exactly_once(house: Inhabited) -> None:
    assert up(house.agent(machine={"cores": 3})) == "bee: up and working"
    assert house.looked == 1


def test_the_plan_is_empty_for_an_agent_that_is_as_the_file_says(house: Inhabited) -> None:
    assert house.plan().empty
