"""A verb that lacks a privilege does not start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hostile.verbs import end_of, forgotten, narrow, take_away, wide
from paddock.core.converge import cycle, down, up
from paddock.plan.step import AdoptTarget
from paddock.verbs.adopt import adopt, describe
from places.node import CATTLE, PET, Node, PaperAgent


def nothing_happened(node: Node, said: str, privilege: str) -> None:
    assert node.running == [CATTLE], f"the machine was stopped without {privilege}"
    assert not node.writes, f"something was changed without {privilege}"
    assert privilege in said


@pytest.mark.parametrize("privilege", ["VM.Allocate", "VM.Config.Disk", "VM.Config.Options", "VM.PowerMgmt"])
@pytest.mark.parametrize("verb", [down, cycle])
def test_down_does_not_start_without_a_privilege_it_needs_later(
    node: Node, verb: Callable[[PaperAgent], str], privilege: str
) -> None:
    up(wide(node))
    node.sent.clear()
    take_away(node, privilege)
    said, _ = end_of(verb, wide(node))
    nothing_happened(node, said, privilege)


@pytest.mark.parametrize(
    "privilege",
    ["VM.Clone", "VM.Config.CPU", "VM.Config.Memory", "VM.Config.Network", "Datastore.AllocateSpace", "SDN.Use"],
)
def test_cycle_does_not_start_without_a_privilege_for_the_new_machine(node: Node, privilege: str) -> None:
    up(wide(node, template="auto"))
    node.sent.clear()
    take_away(node, privilege)
    said, _ = end_of(cycle, wide(node, template="auto"))
    nothing_happened(node, said, privilege)


def test_cycle_does_not_start_when_up_would_be_refused(node: Node) -> None:
    up(wide(node))
    node.sent.clear()
    said, _ = end_of(cycle, wide(node, state={"size": "1G"}))
    assert node.running == [CATTLE], "the machine was destroyed although no new one can be created"
    assert not node.writes
    assert "the file says 1G" in said


@pytest.mark.parametrize("privilege", ["VM.Config.Disk", "VM.Config.Options"])
def test_up_does_not_stop_a_machine_to_grow_a_state_without_the_privilege(node: Node, privilege: str) -> None:
    up(wide(node))
    node.sent.clear()
    narrow(node, f"/vms/{PET}", privilege)
    said, _ = end_of(up, wide(node, state={"size": "9G"}))
    nothing_happened(node, said, privilege)


@pytest.mark.parametrize("privilege", ["VM.Allocate", "VM.Config.Disk", "VM.Config.Options"])
def test_forget_does_not_start_without_a_privilege_it_needs(node: Node, privilege: str) -> None:
    up(wide(node))
    down(wide(node))
    node.sent.clear()
    narrow(node, f"/vms/{PET}", privilege)
    said, _ = end_of(forgotten, wide(node))
    assert not node.writes, f"something was changed without {privilege}"
    assert node.config(PET)["protection"] == 1
    assert privilege in said


@pytest.mark.parametrize("privilege", ["VM.Config.Disk", "VM.Config.Options", "VM.PowerMgmt"])
def test_adopt_does_not_start_without_a_privilege_it_needs(node: Node, privilege: str) -> None:
    node.somebody(200, hostname="bee", mp0="local-lvm:1,mp=/home/bee", net0="name=eth0,bridge=vmbr0,ip=dhcp")
    node.root("pct", "start", 200)
    target = AdoptTarget(200, "mp0")
    file: Any = describe(wide(node), target).said
    agent = wide(node, **file)
    narrow(node, "/vms/200", privilege)
    said, _ = end_of(lambda each: adopt(each, target, looked=True), agent)
    assert not node.writes, f"adopt started without {privilege}"
    assert node.running == [200]
    assert privilege in said


def test_privileges_are_read_once_and_only_when_a_plan_has_steps(node: Node) -> None:
    def reads() -> int:
        return len([sent for sent in node.sent if sent.path == "/access/permissions"])

    up(wide(node))
    first = reads()
    assert "nothing to do" in up(wide(node))
    assert (first, reads()) == (1, 1)
