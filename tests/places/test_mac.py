"""The MAC of a machine: it stays with its agent, and no other agent in the same local network has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.core.converge import cycle, down, up
from paddock.file.agent_id import AgentId
from paddock.kinds import agent_from
from paddock.places.contract import MachineWant
from paddock.places.proxmox.node import network
from paddock.places.proxmox.node.notes import Mark, Role
from paddock.places.proxmox.node.observation import options_of
from places.node import CATTLE, PET, Node, play_ssh

OF_EARLIER_VERSIONS = "BC:24:11:46:82:83"  # of machine 101 of the agent bee: sha256("bee/101")


def mac_of(node: Node, vmid: int = CATTLE) -> str:
    return options_of(str(node.config(vmid)["net0"]))["hwaddr"]


def want(project: str = "home", place: str = "home") -> MachineWant:
    spec = agent_from({"kind": "service", "command": ["/bin/true"], "place": place})
    return MachineWant(AgentId(project, "bee"), spec, "/var/lib/paddock/bee")


def test_agents_of_other_projects_and_places_have_other_macs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes in one local network, with the same agent name and the same numbers."""
    found = []
    for project in ("home", "office"):
        (tmp_path / project).mkdir()
        node = Node(tmp_path / project)
        play_ssh(monkeypatch, node)
        up(node.agent(project=project))
        found.append(mac_of(node))
    assert len({OF_EARLIER_VERSIONS, *found}) == 3
    of_places = [network.of_machine(want(place=place), CATTLE, None) for place in ("home", "attic")]
    assert len(set(of_places)) == 2


def test_a_recreated_machine_keeps_its_mac(node: Node) -> None:
    up(node.agent())
    first = mac_of(node)
    cycle(node.agent())
    assert mac_of(node) == first
    down(node.agent())
    up(node.agent())
    assert mac_of(node) == first


def test_an_agent_whose_pet_is_of_an_earlier_version_keeps_its_mac_after_down(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    of_before = Mark(Role.PET, by="0.1.0").written_into("")
    node.put(PET, description=of_before)
    up(node.agent())
    assert mac_of(node) == OF_EARLIER_VERSIONS
    cycle(node.agent())
    assert mac_of(node) == OF_EARLIER_VERSIONS


def test_an_agent_added_to_a_pet_gets_the_kind_of_mac_that_the_pet_names(node: Node) -> None:
    up(node.agent())
    up(node.agent("ant", state={"pet": PET}))
    machine = max(node.vmids)
    assert mac_of(node, machine) == network.of_helper(want(), "ant", machine)


def test_builders_of_one_template_on_two_nodes_have_two_macs() -> None:
    assert network.of_helper(want(), "e414403ca294", 102) != network.of_helper(
        want(project="office"), "e414403ca294", 102
    )


@pytest.mark.parametrize("renew", [lambda node: None, lambda node: node.put(PET, tags="paddock;mine")])
def test_up_with_nothing_to_do_changes_no_mac(node: Node, renew: Callable[[Node], None]) -> None:
    up(node.agent())
    renew(node)
    assert "nothing to do" in up(node.agent())
