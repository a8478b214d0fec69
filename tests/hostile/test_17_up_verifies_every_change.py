"""Finding 17: `up` said "up and working" without looking when only the machine was changed in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.errors import PaddockError
from paddock.plan.agent import AgentSeen
from paddock.plan.step import Plan
from paddock.recipes import load
from paddock.run.deployment import Deployment
from paddock.run.verbs import up
from places.node import CATTLE, PET, Node, play_ssh

# Each changes a machine in place: none of them needs a restart of the machine or of the agent.
CHANGES: dict[str, dict[str, Any]] = {
    "cores": {"machine": {"cores": 3}},
    "memory": {"machine": {"memory": "1G"}},
    "network": {"machine": {"net": {"firewall": True}}},
    "disk": {"machine": {"disk": "9G"}},
    "tags": {"machine": {"tags": ["lab"]}},
    "notes": {"machine": {"description": "for the lab"}},
}


class Inhabited:
    """A node with a machine that runs an agent as the file says. Whether the agent works is up to the test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.node = Node(folder)
        play_ssh(monkeypatch, self.node)
        self.lacks_packages = False
        self.works = True
        self.looked = 0
        up(self.node.agent())
        house = self

        def inside(self: Deployment, *_: object) -> AgentSeen:
            want = self.want
            packages = frozenset[str]() if house.lacks_packages else want.packages
            return AgentSeen(
                packages=packages,
                bundle_id=want.bundle_id,
                answered=want.bundle_id,
                secrets=want.secrets,
                state_of=self.name,
                units={"paddock-bee-main.service": "active"},
            )

        def answer(self: Deployment, *_: object) -> None:
            house.looked += 1
            if not house.works:
                raise PaddockError("bee did not become healthy: port 8642 does not accept connections")

        def install(*_: object) -> None:
            house.lacks_packages = False

        monkeypatch.setattr(Deployment, "_look_inside", inside)
        monkeypatch.setattr(Deployment, "_await_answer", answer)
        monkeypatch.setattr("paddock.run.deployment.install_packages", install)
        # The quick lines: this agent looks well, and does not answer.
        monkeypatch.setattr("paddock.run.verbs.verify", lambda *_, **__: SimpleNamespace(ok=True))

    def agent(self, **keys: Any) -> Deployment:
        """The whole deployment: what is inside its machine is seen, planned and performed too."""
        outside = self.node.agent(**keys)
        return Deployment(outside.name, load(self.folder / "paddock.yaml"), outside.place, outside.told)

    def plan(self, **keys: Any) -> Plan:
        agent = self.agent(**keys)
        return agent.plan_up(agent.observe())


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inhabited:
    return Inhabited(tmp_path, monkeypatch)


def expect_noticed(house: Inhabited, **keys: Any) -> None:
    """`up` ends with an error that says what is wrong with the agent."""
    try:
        said = f"exit code 0, {up(house.agent(**keys))}"
    except PaddockError as error:
        said = error.message
    assert "did not become healthy" in said, f"`up` made a change, and said of a broken agent: {said}"


@pytest.mark.parametrize("keys", CHANGES.values(), ids=list(CHANGES))
def test_a_broken_agent_is_noticed_after_its_machine_was_changed_in_place(
    house: Inhabited, keys: dict[str, Any]
) -> None:
    house.works = False
    plan = house.plan(**keys)
    assert plan.steps, "the change takes no step"
    expect_noticed(house, **keys)
    assert [step.id for step in plan.steps][-1] == "agent.answer"


def test_a_broken_agent_is_noticed_after_its_pet_was_protected_again(house: Inhabited) -> None:
    house.node.put(PET, protection=0)
    house.works = False
    expect_noticed(house)
    assert house.node.config(PET)["protection"] == 1


def test_a_broken_agent_is_noticed_after_packages_were_installed(house: Inhabited) -> None:
    house.lacks_packages = True
    house.works = False
    expect_noticed(house, packages=["jq"])


@pytest.mark.parametrize("fault", ["lose", "answer"])
def test_a_change_whose_answer_was_lost_is_verified_all_the_same(house: Inhabited, fault: str) -> None:
    """The run looks again, finds the machine as the file says, and has nothing left to plan."""
    lose: Callable[[], None] = lambda: house.node.fault(fault, "596" if fault == "answer" else "")  # noqa: E731
    house.node.before("PUT", f"*/{CATTLE}/config", lose)
    house.works = False
    expect_noticed(house, machine={"cores": 3})


def test_a_change_is_verified_once(house: Inhabited) -> None:
    assert up(house.agent(machine={"cores": 3})) == "bee: up and working"
    assert house.looked == 1


def test_nothing_is_planned_for_an_agent_that_is_as_the_file_says(house: Inhabited) -> None:
    assert house.plan().empty
