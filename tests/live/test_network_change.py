"""A change of the network of a machine with a real network: it is restarted, and answers at the address of the file."""

from __future__ import annotations

import ipaddress

import pytest

from live.node import Node
from paddock.demo import FACT, QUESTION

pytestmark = pytest.mark.live


def test_a_machine_answers_after_its_mac_and_its_address_were_changed(agent: Node) -> None:
    agent.ask(f"Remember: {FACT}")
    before = agent.status()["address"]
    mac = "agents.hermes.machine.net={mac: bc:24:11:0a:0b:0c}"
    said = agent.paddock("up", "--set", mac).stderr
    assert "shut machine" in said
    assert "bc:24:11:0a:0b:0c" in agent.machine("cat /sys/class/net/eth0/address")
    fixed = str(ipaddress.ip_address(agent.gateway) + 240)
    net = f"agents.hermes.machine.net={{address: {fixed}/24, gateway: {agent.gateway}}}"
    agent.paddock("up", "--set", net)
    assert agent.status()["address"] == fixed
    assert agent.ask(QUESTION) == FACT
    agent.paddock("up")
    assert agent.status()["address"] != fixed
    assert agent.ask(QUESTION) == FACT
    assert before
    assert agent.paddock("plan").stdout == "hermes: nothing to do\n"
