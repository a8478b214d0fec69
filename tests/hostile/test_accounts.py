"""Agents of two files on one host cannot have one account, or they would write into each other's homes."""

from __future__ import annotations

from typing import Any

import pytest

from hostile.ground import Machine, as_root
from hostile.private_machine import PrivateMachine, spec_of
from paddock.base.process import CommandFailed
from paddock.plan import account
from paddock.plan.agent import AgentWant

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
    ids=["same account", "same uid", "same group", "same gid", "existing account"],
)
def test_an_account_of_another_agent_is_refused(machine: PrivateMachine, user: dict[str, Any]) -> None:
    message = ""
    try:
        machine.apply("wasp", user=user)
    except CommandFailed as refusal:
        message = str(refusal)
    assert message, f"wasp runs as {user}, and can write bee's files"
    assert "bee of project home on this machine" in message
    assert "user:" in message
    assert not machine.at("/var/lib/paddock/wasp").exists()


def test_an_account_with_another_name_and_the_same_uid_is_refused(machine: PrivateMachine) -> None:
    passwd = machine.at("/etc/passwd")
    passwd.write_text(passwd.read_text() + "drone:x:10777:10777::/:/bin/sh\n")
    with pytest.raises(CommandFailed, match="the account drone is also used by bee of project home"):
        machine.apply("wasp", user={"name": "drone", "group": "bee", "create": False})


def test_an_agent_that_shares_an_account_can_move_to_its_own(machine: PrivateMachine) -> None:
    """An earlier version let two agents share an account. The one that moves keeps its files, with the new owner."""
    machine.apply("wasp", user={"name": "wasp", "uid": 10778})
    settings = machine.at("/etc/paddock/home_bee/current/bundle.env")
    shared = settings.read_text().replace("bee:bee", "wasp:wasp").replace("10777", "10778")
    settings.write_text(shared)
    with pytest.raises(CommandFailed, match="is also used by bee of project home on this machine"):
        machine.apply("wasp", user={"name": "wasp", "uid": 10778})
    fact = machine.at("/var/lib/paddock/wasp/home/fact")
    fact.write_text("mine")
    machine.apply("wasp", user={"name": "drone", "uid": 10779})
    assert fact.stat().st_uid == 10779
    machine.apply("bee", user=BEE)


@pytest.mark.parametrize(
    "user",
    [{"name": "bee", "uid": 10780}, {"name": "drone", "uid": 10777}, {**BEE, "gid": 10780}, {**BEE, "group": "hive"}],
    ids=["other uid", "other name", "other gid", "other group"],
)
def test_half_a_change_of_the_account_fails_on_the_machine_so_the_plan_refuses_it(
    machine: PrivateMachine, user: dict[str, Any]
) -> None:
    with pytest.raises(CommandFailed, match=r"has the number|has the (uid|gid)"):
        machine.apply("bee", user=user)
    seen = machine.observe("bee", user=user)
    assert seen.account == "bee:bee:10777:10777"
    want = AgentWant(None, "b2", "", foreground=False, account=spec_of("bee", user=user).user.described)
    refusal = account.refusal("bee", want, seen)
    assert refusal
    assert refusal.code == "account.changed"


def test_another_agent_can_use_an_account_after_down(machine: PrivateMachine) -> None:
    machine.remove("bee", user=BEE)
    machine.apply("wasp", user=BEE)
