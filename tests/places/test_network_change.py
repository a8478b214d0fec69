"""A change of a machine's network: the machine is restarted with it, and is reached at the address of the file."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.base.errors import PaddockError
from paddock.core.converge import up
from paddock.places.proxmox.machine import reach as reaching
from places.node import CATTLE, Node, PaperAgent, Sent, address_of

STATUS = f"/nodes/pve/lxc/{CATTLE}/status"


def with_net(node: Node, **net: Any) -> PaperAgent:
    return node.agent(machine={"net": net})


def order(sent: list[Sent]) -> list[str]:
    """Return the requests that change the machine's card or stop or start it, in order."""
    found = [str(each) for each in sent if each.path.startswith(STATUS)]
    cards = [at for at, each in enumerate(sent) if each.writes and "net0" in each.params]
    assert len(cards) == 1
    before = [str(each) for each in sent[: cards[0]] if each.writes and each.path.startswith(STATUS)]
    after = [str(each) for each in sent[cards[0] :] if each.writes and each.path.startswith(STATUS)]
    assert found
    return [*before, "net0", *after]


@pytest.mark.parametrize(
    "net",
    [
        {"mac": "aa:bb:cc:dd:ee:ff"},
        {"vlan": 7},
        {"mtu": 1400},
        {"address": "10.0.0.101/24", "gateway": "10.0.0.1"},
    ],
)
def test_a_change_of_the_network_is_made_while_the_machine_is_stopped(node: Node, net: dict[str, Any]) -> None:
    """Proxmox replaces the card of a running container, and nobody in it asks for an address."""
    up(node.agent())
    node.sent.clear()
    up(with_net(node, **net))
    assert order(node.sent) == [f"POST {STATUS}/shutdown", "net0", f"POST {STATUS}/start"]
    assert "nothing to do" in up(with_net(node, **net))


def test_a_fixed_address_is_the_one_that_is_reached(node: Node) -> None:
    up(node.agent())
    up(with_net(node, address="10.0.7.101/24", gateway="10.0.7.1"))
    assert with_net(node, address="10.0.7.101/24", gateway="10.0.7.1").observe().machine.address == "10.0.7.101"
    up(node.agent())
    assert node.agent().observe().machine.address == address_of(CATTLE)


def test_the_firewall_of_a_card_is_switched_while_the_machine_runs(node: Node) -> None:
    up(node.agent())
    node.sent.clear()
    up(with_net(node, firewall=True))
    assert not [each for each in node.writes if each.path.startswith(STATUS)]


def for_an_hour(answer: Any) -> Any:
    """Let the containers of a list have run for an hour."""
    rows = answer["data"] if isinstance(answer["data"], list) else []
    return {"data": [row | {"uptime": 3600} if "uptime" in row else row for row in rows]} if rows else answer


def test_a_machine_that_lost_its_address_long_ago_is_restarted(node: Node) -> None:
    """An earlier version changed the card while the machine ran."""
    up(node.agent())
    card = str(node.config(CATTLE)["net0"])
    node.put(CATTLE, net0=card.replace("bridge=vmbr0", "bridge=vmbr0,tag=7"))
    agent = with_net(node, vlan=7)
    plan = agent.plan_up()
    assert [step.id for step in plan.steps if step.id.startswith("cattle")] == ["cattle.reach"]
    node.rewrite = for_an_hour
    plan = with_net(node, vlan=7).plan_up()
    assert [step.id for step in plan.steps if step.id.startswith("cattle")] == ["cattle.restart", "cattle.reach"]
    up(with_net(node, vlan=7))
    assert with_net(node, vlan=7).observe().machine.address == address_of(CATTLE)


def test_reach_ends_with_what_it_saw(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "_REACH_SECONDS", 1)
    node.machines.unanswered = 10_000
    with pytest.raises(PaddockError) as caught:
        up(node.agent())
    mac = str(node.config(CATTLE)["net0"]).partition("hwaddr=")[2][:17].lower()
    assert f"machine {CATTLE} got no address: eth0 ({mac}) has only fe80::be24:11ff:fe00:1" in caught.value.message
    assert "DHCP server answers on vmbr0" in str(caught.value.hint)
    with pytest.raises(PaddockError) as caught:
        up(with_net(node, address="10.0.0.101/24"))
    assert f"machine {CATTLE} does not have the address 10.0.0.101 of the file: eth0" in caught.value.message
    node.machines.unanswered = 0
    up(with_net(node, address="10.0.0.101/24"))
