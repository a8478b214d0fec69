"""Forgetting one of several agents of a pet: cut off anywhere, it goes on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from paddock.errors import Refused
from paddock.places.proxmox.claim import Claim
from paddock.run.verbs import down, forget, plan_forget, up
from places.life import runs_until_done
from places.node import CATTLE, PET, Killed, Node, PaperAgent


def forgotten(agent: PaperAgent) -> str:
    seen, plan = plan_forget(agent)
    return forget(agent, plan, seen)


def ant(node: Node) -> PaperAgent:
    return node.agent("ant", state={"pet": PET})


@pytest.fixture
def shared(node: Node) -> Node:
    """A pet of two agents, one of which is down."""
    up(node.agent())
    up(ant(node))
    down(ant(node))
    node.sent.clear()
    return node


@pytest.mark.parametrize("after", range(1, 5))
def test_forgetting_that_was_cut_off_is_gone_on_with(shared: Node, after: int) -> None:
    shared.kill_after = after
    ends = runs_until_done(forgotten, lambda: ant(shared))
    assert [type(end) for end in ends] == [Killed]
    pet = shared.config(PET)
    assert pet["protection"] == 1
    assert "forgetting" not in pet["description"]
    assert [key for key in pet if key.startswith(("mp", "unused"))] == ["mp0"]
    assert shared.volumes == {"vm-100-disk-0", "vm-100-disk-1", "vm-101-disk-0"}
    assert shared.running == [CATTLE]
    assert len(shared.writes) >= 4  # those of one whole run


def test_a_pet_that_another_machine_is_forgetting_is_left_to_it(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    until = datetime.now(UTC) + timedelta(minutes=5)
    node.put(PET, description=Claim("laptop", until).written_into(node.config(PET)["description"]))
    with pytest.raises(Refused, match="laptop is deleting"):
        up(node.agent())
    with pytest.raises(Refused, match="laptop is at work on"):
        forgotten(node.agent())
    assert node.config(PET)["protection"] == 1


def test_what_is_half_forgotten_does_not_come_back_by_itself(shared: Node) -> None:
    shared.kill_after = 2
    with pytest.raises(Killed):
        forgotten(ant(shared))
    with pytest.raises(Refused, match="has an unfinished `forget` of ant") as caught:
        up(ant(shared))
    assert "paddock forget" in str(caught.value.hint)
    up(shared.agent())  # the others are not concerned, except that their pet gets its protection back
    assert shared.config(PET)["protection"] == 1
    forgotten(ant(shared))
    up(ant(shared))
    assert shared.config(PET)["mp1"].startswith("local-lvm:vm-100-disk-2,mp=/var/lib/paddock/ant")
