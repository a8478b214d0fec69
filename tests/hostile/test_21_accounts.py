"""Finding 21, first half: two files that use one account on one host write into each other's homes."""

from __future__ import annotations

from typing import Any

import pytest

from hostile.ground import Machine, as_root
from hostile.private_machine import PrivateMachine
from paddock.process import CommandFailed

pytestmark = as_root

BEE = {"name": "bee", "uid": 10777}


@pytest.fixture
def machine(ground: Machine) -> PrivateMachine:
    machine = PrivateMachine(ground)
    machine.apply("bee", user=BEE)
    return machine


@pytest.mark.parametrize(
    "user",
    [
        BEE,
        {"name": "wasp", "uid": 10777},
        {"name": "wasp", "uid": 10778, "group": "bee", "gid": 10777},
        {"name": "wasp", "uid": 10778, "group": "wasps", "gid": 10777},
        {"name": "bee", "create": False},
    ],
    ids=["the same account", "its number", "its group", "its group's number", "one that is there"],
)
def test_an_account_of_another_agent_is_refused(machine: PrivateMachine, user: dict[str, Any]) -> None:
    told = ""
    try:
        machine.apply("wasp", user=user)
    except CommandFailed as refusal:
        told = str(refusal)
    assert told, f"wasp runs as {user}, and bee's files are as good as its own"
    assert "bee on this machine" in told
    assert "user:" in told
    assert not machine.at("/var/lib/paddock/wasp").exists()


def test_an_account_with_another_name_for_the_same_number_is_refused(machine: PrivateMachine) -> None:
    passwd = machine.at("/etc/passwd")
    passwd.write_text(passwd.read_text() + "drone:x:10777:10777::/:/bin/sh\n")
    with pytest.raises(CommandFailed, match="the account drone is also used by the agent bee"):
        machine.apply("wasp", user={"name": "drone", "group": "bee", "create": False})


def test_an_account_of_its_own_is_fine_and_the_way_out(machine: PrivateMachine) -> None:
    """Two agents of before that share an account: one gets another, and its files with it."""
    machine.apply("wasp", user={"name": "wasp", "uid": 10778})
    settings = machine.at("/etc/paddock/bee/current/bundle.env")
    shared = settings.read_text().replace("bee:bee", "wasp:wasp").replace("10777", "10778")
    settings.write_text(shared)
    with pytest.raises(CommandFailed, match="is also used by the agent bee on this machine"):
        machine.apply("wasp", user={"name": "wasp", "uid": 10778})
    fact = machine.at("/var/lib/paddock/wasp/home/fact")
    fact.write_text("mine")
    machine.apply("wasp", user={"name": "drone", "uid": 10779})
    assert fact.stat().st_uid == 10779
    machine.apply("bee", user=BEE)


def test_an_account_is_free_again_after_down(machine: PrivateMachine) -> None:
    machine.remove("bee", user=BEE)
    machine.apply("wasp", user=BEE)
