"""Entries of `network.egress`, and the hosts around an agent."""

from __future__ import annotations

import pytest

from cases import DATA
from paddock.file.models.network import Egress, Endpoint
from paddock.file.models.whole import neighbours
from paddock.kinds import parse

GOOD = (DATA / "good.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("10.0.0.5:4000", Endpoint("10.0.0.5", 4000)),
        ("10.0.0.5/32", Endpoint("10.0.0.5")),
        ("192.168.1.0/24", Endpoint("192.168.1.0/24")),
        ("192.168.1.0/24:443", Endpoint("192.168.1.0/24", 443)),
        ("API.Example.com:443", Endpoint("api.example.com", 443)),
        ("fd00:0:0::5", Endpoint("fd00::5")),
        ("[fd00::5]:443", Endpoint("fd00::5", 443)),
        ("[fd00::/64]:443", Endpoint("fd00::/64", 443)),
    ],
)
def test_an_entry_is_read_in_its_normal_form(text: str, endpoint: Endpoint) -> None:
    assert Endpoint.parse(text) == endpoint
    assert Endpoint.parse(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("given", "egress", "closed"),
    [
        ("", Egress.OPEN, False),
        ("    network: {egress: open}\n", Egress.OPEN, False),
        ("    network: {egress: internet}\n", Egress.INTERNET, True),
        ("    network: {egress: []}\n", [], True),
        ("    network: {egress: [10.0.0.5/32]}\n", ["10.0.0.5"], True),
        ("defaults: {network: {egress: internet}}\n", Egress.INTERNET, True),
    ],
)
def test_connections_are_open_unless_the_file_limits_them(given: str, egress: object, closed: bool) -> None:
    network = parse(GOOD + given, "paddock.yaml").agents["hermes"].network
    assert network.egress == egress
    assert network.closed is closed


def test_nodes_hosts_and_other_agents_are_around_an_agent() -> None:
    other = "  other: {kind: service, command: [a], place: home, machine: {net: 192.0.2.30/24}}\n"
    spec = parse(GOOD + other, "paddock.yaml")
    assert neighbours("hermes", spec) == ["192.0.2.10", "192.0.2.20", "192.0.2.30"]
    assert neighbours("other", spec) == ["192.0.2.10", "192.0.2.20"]
