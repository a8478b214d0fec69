"""The requests of a run: it writes only to the agent's containers, and an observation needs few reads."""

from __future__ import annotations

import re

import pytest

from paddock.core.converge import cycle, down, up
from places.node import CATTLE, PET, WIDE, Node, Sent

LXC = "/nodes/pve/lxc"


def written_to(sent: Sent) -> set[int]:
    """Return the containers that a request changes or creates."""
    inside = re.match(rf"{LXC}/(\d+)", sent.path)
    numbers = [inside[1]] if inside else []
    return {
        int(number) for number in [*numbers, *(sent.params[key] for key in ("vmid", "newid") if key in sent.params)]
    }


def neighbours(node: Node) -> list[int]:
    """Create containers of others: one without a mark, a pet, and another agent's machine."""
    node.somebody(150, tags="theirs")
    node.somebody(151, description="paddock: v=2 role=pet", mp0="local-lvm:1,mp=/var/lib/paddock/home_ant")
    node.somebody(152, description="paddock: v=2 role=cattle agent=home_ant", mp0="local-lvm:vm-151-disk-1,mp=/x")
    return [150, 151, 152]


@pytest.mark.parametrize(("template", "own"), [("none", {PET, CATTLE}), ("auto", {PET, CATTLE, 102})])
def test_only_the_agents_pet_machine_and_template_are_written_to(node: Node, template: str, own: set[int]) -> None:
    others = neighbours(node)
    before = {vmid: node.config(vmid) for vmid in others}
    up(node.agent(template=template))
    up(node.agent(template=template, machine={"cores": 3, "tags": ["ai"]}, state={"size": "9G"}))
    cycle(node.agent(template=template, state={"size": "9G"}))
    down(node.agent(template=template))
    assert all(len(written_to(sent)) >= 1 for sent in node.writes)  # every write names a container
    assert set().union(*map(written_to, node.writes)) == own
    assert {vmid: node.config(vmid) for vmid in others} == before
    assert all("digest" in sent.params for sent in node.writes if sent.method == "PUT")


@pytest.mark.parametrize("template", ["none", "auto"])
def test_a_second_up_writes_nothing(node: Node, template: str) -> None:
    up(node.agent(template=template))
    node.sent.clear()
    assert "nothing to do" in up(node.agent(template=template))
    assert not node.writes


def test_observe_sends_one_read_per_container_and_a_few_for_the_node(node: Node) -> None:
    up(node.agent())
    cost = {}
    for count, vmids in ((3, (150,)), (13, range(151, 161))):
        for vmid in vmids:
            node.somebody(vmid)
        node.sent.clear()
        agent = node.agent(token=WIDE)
        agent.plan_up(agent.observe())
        assert not node.writes
        # The list of a machine's pending changes has its configuration too.
        read = [sent.path for sent in node.sent if sent.path.endswith(("/config", "/pending"))]
        assert len(read) == len({path.rpartition("/")[0] for path in read}) == count
        cost[count] = len(node.sent) - count
    assert cost[3] == cost[13] <= 10


def test_containers_are_read_concurrently(node: Node) -> None:
    for vmid in range(150, 158):
        node.somebody(vmid)
    node.fault("slow", "30", path="*/config", count=0)
    node.at_once = 0
    node.agent(token=WIDE).observe()
    assert node.at_once >= 4
