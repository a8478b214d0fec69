"""A bridge that is an SDN vnet: the privilege on it is below its zone, for `init`, for `doctor` and for `up`."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.base.errors import PaddockError, Refused
from paddock.core.converge import up
from paddock.places.proxmox.access.roles import choice_lines, held_by, user_lines
from paddock.places.proxmox.node import network
from paddock.places.proxmox.node.survey import survey
from places.node import CATTLE, DAILY, DEPLOYER, WIDE, Node, PaperAgent, play_ssh
from places.test_first_access import TOKEN, paste
from pvebox.cluster.fixture import default_fixture

ON_VNET = "/sdn/zones/intra/intra01"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with the vnet of a simple zone."""
    node = Node(tmp_path, given={**default_fixture(), "vnets": {"intra01": "intra"}})
    play_ssh(monkeypatch, node)
    return node


def on_vnet(node: Node, token: str = DEPLOYER) -> PaperAgent:
    return node.agent(token=token, machine={"net": {"bridge": "intra01"}})


def commands(remedies: object) -> list[str]:
    assert isinstance(remedies, list)
    return [line.strip() for line in remedies if line.strip().startswith("pveum")]


def test_a_person_who_follows_doctor_gets_a_machine_on_a_vnet(node: Node) -> None:
    """A token that sees no vnet learns in two steps which path it needs."""
    findings, remedies = on_vnet(node).examine()
    [unknown] = [each for each in findings if each.subject == "bridge intra01"]
    assert not unknown.ok
    assert not any("localnetwork/intra01" in line for line in remedies)
    paste(node, commands([*remedies]))
    findings, remedies = on_vnet(node).examine()
    [lacks] = [each for each in findings if each.subject == f"daily on {ON_VNET}"]
    assert lacks.evidence == "lacks SDN.Use"
    paste(node, commands([*remedies]))
    findings, remedies = on_vnet(node).examine()
    assert all(each.ok for each in findings)
    assert remedies == []
    up(on_vnet(node))
    assert "bridge=intra01" in str(node.config(CATTLE)["net0"])
    assert "nothing to do" in up(on_vnet(node, DAILY))


def test_a_privilege_on_the_path_of_a_bridge_is_not_taken_for_one_on_the_vnet(node: Node) -> None:
    """Nothing is created before the privilege is known to be missing."""
    user = DEPLOYER.partition("!")[0]
    line = f"pveum acl modify /sdn/zones/localnetwork/intra01 --users {user} --tokens '{DEPLOYER}' --roles PoolNet"
    paste(node, [line])
    with pytest.raises(Refused, match=r"nothing was changed.*SDN\.Use on /sdn/zones/ZONE/intra01"):
        up(on_vnet(node))
    assert node.vmids == []


def test_up_names_the_path_in_the_zone_that_it_sees(node: Node) -> None:
    user = DEPLOYER.partition("!")[0]
    line = f"pveum acl modify /sdn/zones --users {user} --tokens '{DEPLOYER}' --roles PaddockLook"
    paste(node, ["pveum role add PaddockLook --privs 'Datastore.Audit SDN.Audit'", line])
    with pytest.raises(Refused, match=rf"nothing was changed.*SDN\.Use on {ON_VNET}"):
        up(on_vnet(node))
    assert node.vmids == []


def test_a_name_that_is_neither_a_bridge_nor_a_vnet_is_said_by_doctor(node: Node) -> None:
    agent = node.agent(token=WIDE, machine={"net": {"bridge": "lan"}})
    paste(node, commands([*agent.examine()[1]]))
    findings, remedies = node.agent(token=WIDE, machine={"net": {"bridge": "lan"}}).examine()
    [unknown] = [each for each in findings if each.subject == "bridge lan"]
    assert not unknown.ok
    assert "another machine.net.bridge" in str(unknown.hint)
    assert commands([*remedies]) == []


def test_init_offers_the_vnets_and_root_s_lines_name_their_zone(node: Node) -> None:
    paste(node, user_lines(TOKEN))
    client = node.client(TOKEN)
    assert [each.name for each in survey(client).nodes[0].bridges] == ["vmbr0", "intra01"]
    spec = node.agent(token=TOKEN).node._spec.model_copy(update={"bridge": "intra01"})
    lines = choice_lines(TOKEN, spec, held_by(client), network.zones(client))
    assert [line for line in lines if f" {ON_VNET} " in line]
    paste(node, lines)
    assert choice_lines(TOKEN, spec, held_by(client), network.zones(client)) == []
    up(on_vnet(node, TOKEN))


def test_a_token_of_earlier_lines_sees_bridges_and_runs_agents_as_before(node: Node) -> None:
    earlier = [line.replace("/sdn/zones ", "/sdn/zones/localnetwork ") for line in user_lines(TOKEN)]
    paste(node, earlier)
    client = node.client(TOKEN)
    assert [each.name for each in survey(client).nodes[0].bridges] == ["vmbr0"]
    paste(node, choice_lines(TOKEN, node.agent(token=TOKEN).node._spec, held_by(client), network.zones(client)))
    up(node.agent(token=TOKEN))


@pytest.mark.parametrize("rows", [[{"vnet": "a;reboot", "zone": "z"}, {"vnet": "v", "zone": "../x"}, {}, {"vnet": 1}]])
def test_names_from_the_node_that_are_no_names_become_no_commands(node: Node, rows: list[dict[str, object]]) -> None:
    node.rewrite = lambda answer: {"data": rows}
    assert network.zones(node.client()) == {}


def test_a_node_that_lists_no_vnets_is_one_without(node: Node) -> None:
    node.fault("answer", "501:not implemented", path="/cluster/sdn/vnets")
    assert network.zones(node.client()) == {}
    with pytest.raises(PaddockError):
        node.client().get("/nothing")
