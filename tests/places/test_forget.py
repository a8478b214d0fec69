"""`forget` for one of several agents of a pet; a second run continues an interrupted one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from paddock.base.errors import Refused
from paddock.core.converge import down, forget, plan_forget, up
from paddock.places.proxmox.node.notes import Claim
from places.life import runs_until_done
from places.node import CATTLE, PET, Killed, Node, PaperAgent


def forgotten(agent: PaperAgent) -> str:
    seen, plan = plan_forget(agent)
    return forget(agent, plan, seen)


def ant(node: Node) -> PaperAgent:
    return node.agent("ant", state={"pet": PET})


@pytest.fixture
def shared(node: Node) -> Node:
    """A pet with volumes of two agents, one of which is down."""
    up(node.agent())
    up(ant(node))
    down(ant(node))
    node.sent.clear()
    return node


@pytest.mark.parametrize("after", range(1, 5))
def test_forget_continues_after_a_kill_at_any_request(shared: Node, after: int) -> None:
    shared.kill_after = after
    ends = runs_until_done(forgotten, lambda: ant(shared))
    assert [type(end) for end in ends] == [Killed]
    pet = shared.config(PET)
    assert pet["protection"] == 1
    assert "forgetting" not in pet["description"]
    assert [key for key in pet if key.startswith(("mp", "unused"))] == ["mp0"]
    assert shared.volumes == {"vm-100-disk-0", "vm-100-disk-1", "vm-101-disk-0"}
    assert shared.running == [CATTLE]
    assert len(shared.writes) >= 4  # the requests of one complete run


def test_forget_refuses_a_pet_that_another_host_is_deleting(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    until = datetime.now(UTC) + timedelta(minutes=5)
    node.put(PET, description=Claim("laptop", until).written_into(node.config(PET)["description"]))
    with pytest.raises(Refused, match="laptop is at work on"):
        up(node.agent())
    with pytest.raises(Refused, match="laptop is at work on"):
        forgotten(node.agent())
    assert node.config(PET)["protection"] == 1


def test_up_refuses_while_a_forget_is_unfinished(shared: Node) -> None:
    shared.kill_after = 2
    with pytest.raises(Killed):
        forgotten(ant(shared))
    with pytest.raises(Refused, match="has an unfinished `forget` of ant") as caught:
        up(ant(shared))
    assert "paddock forget" in str(caught.value.hint)
    up(shared.agent())  # other agents of the pet still work, and the pet is protected again
    assert shared.config(PET)["protection"] == 1
    forgotten(ant(shared))
    up(ant(shared))
    assert shared.config(PET)["mp1"].startswith("local-lvm:vm-100-disk-2,mp=/var/lib/paddock/home_ant")
