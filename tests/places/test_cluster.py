"""A node of a cluster: containers on other nodes are seen and not changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.errors import Refused
from paddock.recipes import load
from paddock.run.deployment import deployments
from paddock.run.reporter import Reporter
from paddock.run.verbs import up
from places.node import Node, play_ssh


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path, nodes=("pve", "pve2"))
    play_ssh(monkeypatch, node)
    return node


def test_up_creates_pet_and_machine_on_the_node_of_the_file(cluster: Node) -> None:
    up(cluster.agent(node="pve2"))
    assert {sent.path.split("/")[2] for sent in cluster.writes} == {"pve2"}
    assert "nothing to do" in up(cluster.agent(node="pve2"))


def test_up_refuses_a_second_state_when_the_pet_is_on_another_node(cluster: Node) -> None:
    up(cluster.agent(node="pve2"))
    cluster.world.statistics.gather()  # every few seconds, on a real one
    cluster.sent.clear()
    with pytest.raises(Refused, match="container 101 on node pve2 is the machine of bee"):
        up(cluster.agent(node="pve"))
    assert not cluster.writes


def test_agents_of_one_place_may_be_on_two_nodes(cluster: Node) -> None:
    cluster.agent()  # writes its file
    file = cluster._folder / "paddock.yaml"
    sets = ["agents.bee.machine.node=pve2", "agents.ant={kind: service, command: [/bin/true], place: home}"]
    with deployments(load(file, sets=sets), [], Reporter()) as agents:
        assert {agent.name: agent.where for agent in agents} == {"bee": "home (pve2)", "ant": "home"}
        nodes = {agent.name: agent.place._client.node for agent in agents}  # type: ignore[attr-defined]
    assert nodes == {"bee": "pve2", "ant": "pve"}
