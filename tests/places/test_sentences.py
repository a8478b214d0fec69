"""Mistakes in the file that only the node can find, and what other runs did, are told in sentences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.base.errors import BadInput, PaddockError, Refused
from paddock.channels import Guest, Unreachable
from paddock.core.converge import cycle, up
from paddock.core.observe import Observation
from paddock.core.resolve import Located
from paddock.plan.actions import AgentAction, InstallContents
from paddock.plan.agent import AgentSeen
from paddock.verbs import doctor
from paper import PaperSide
from places.life import expect_up
from places.node import CATTLE, WIDE, Node


def test_a_node_that_the_cluster_does_not_have_is_named_with_those_that_it_has(node: Node) -> None:
    with pytest.raises(BadInput, match="https://node:8006 has no node other") as caught:
        up(node.agent(node="other"))
    assert "its nodes: pve; write one of them" in str(caught.value.hint)
    [report] = doctor.examine([node.agent(node="other")])
    assert "has no node other" in report.findings[-1].evidence


def test_an_error_of_a_node_that_exists_stays_as_it_is(node: Node) -> None:
    node.fault("answer", "500:disk on fire", path="/nodes/pve/lxc", count=0)
    with pytest.raises(PaddockError, match="disk on fire"):
        up(node.agent())


def test_a_bridge_that_the_node_does_not_have_is_named_with_those_that_it_has(node: Node) -> None:
    with pytest.raises(PaddockError, match=f"machine {CATTLE} does not start: node pve has no bridge vmbr9") as caught:
        up(node.agent(token=WIDE, machine={"net": {"bridge": "vmbr9"}}))
    assert "the token may use: vmbr0" in str(caught.value.hint)
    up(node.agent(token=WIDE))  # with the right one
    expect_up(node)


def test_another_failure_to_start_stays_as_it_is(node: Node) -> None:
    node.fault("fail-task", "no idea", path="*/start")
    with pytest.raises(PaddockError, match="no idea"):
        up(node.agent())


class Installing(PaperSide):
    """Records on which machine the contents of a template are installed, and others are reached."""

    def __init__(self, inside: dict[str, AgentSeen]) -> None:
        super().__init__(inside)
        self.names: list[str] = []

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        reached = reach()
        assert agent.place.guest is not None
        self.names.append(f"{type(action).__name__} {reached.name}")
        super().perform(agent, action, seen, reach)


def test_an_error_on_the_builder_names_the_builder(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    from paddock.places.proxmox.machine.reach import Reacher

    guest = Reacher.guest
    names: dict[str, str] = {}

    def named(self: Reacher, name: str, vmid: int, address: str, keys: list[str]) -> Guest:
        names[address] = name
        return guest(self, name, vmid, address, keys)

    monkeypatch.setattr(Reacher, "guest", named)
    node.side = Installing(node.machines.inside)
    up(node.agent(template="auto"))
    done = [each.split() for each in node.side.names]
    assert [names[address] for what, address in done if what == InstallContents.__name__] == ["builder-102"]
    assert {names[address] for what, address in done if what != InstallContents.__name__} == {"bee"}


class Replaced(PaperSide):
    """The inside of a machine cannot be read, because another laptop recreates it at that moment."""

    def __init__(self, inside: dict[str, AgentSeen], recreate: Callable[[], object] | None) -> None:
        super().__init__(inside)
        self.recreate = recreate

    def look(self, agent: Located, guest: Guest, patience: float = 0.0) -> AgentSeen:
        if self.recreate:
            recreate, self.recreate = self.recreate, None
            recreate()
            raise Unreachable("Host key verification failed", hint="check that this is the machine you mean")
        return super().look(agent, guest, patience)


def test_a_run_that_finds_another_host_key_says_which_run_recreated_the_machine(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(node.agent())
    makers: list[str] = []

    def other_laptop() -> None:
        with monkeypatch.context() as there:
            there.setenv("XDG_STATE_HOME", str(tmp_path / "there"))
            other = node.agent(alongside=True)
            makers.append(other.node._holder.name)
            cycle(other)

    node.side = Replaced(node.machines.inside, other_laptop)
    with pytest.raises(Refused) as caught:
        up(node.agent(alongside=True))
    assert caught.value.message == f"bee: {makers[0]} created machine {CATTLE} for bee meanwhile"
    assert caught.value.hint == "run the same command again"
    assert "nothing to do" in up(node.agent())


def test_a_host_key_that_no_other_run_explains_stays_an_error_about_the_key(node: Node) -> None:
    up(node.agent())
    node.side = Replaced(node.machines.inside, lambda: None)
    with pytest.raises(Refused, match="Host key verification failed"):
        up(node.agent())
