"""`down` does not report a running agent as down, gives up no state, and stops no machine that it cannot remove."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cases import golden, read_case
from hostile.verbs import USER, end_of, forgotten, narrow, take_away, wide
from paddock.core.converge import cycle, down, up
from paddock.plan.step import AdoptTarget
from paddock.verbs.adopt import adopt, describe
from places.node import CATTLE, PET, Node, PaperAgent
from places.test_planner import inputs, plans

CONTAINER: dict[str, Any] = {"install": True, "base": "docker.io/library/busybox:1"}
DATA: dict[str, Any] = {"runtime": "docker", "container": {**CONTAINER, "data": "1G"}}
PET_LINE = "paddock: v=2 role=pet"
MACHINE_LINE = "paddock: v=2 role=cattle agent=home_bee"


# `down` does not report a running agent as down


def test_down_fails_when_the_machine_lost_its_mark(node: Node) -> None:
    up(wide(node))
    node.put(CATTLE, description="my notes")
    said, hint = end_of(down, wide(node))
    assert node.running == [CATTLE]
    assert "was down" not in said, "a running agent was reported as down"
    assert hint.endswith(MACHINE_LINE)
    node.put(CATTLE, description=f"my notes\n\n{hint[-len(MACHINE_LINE) :]}")
    # A person looked, because the line tells nothing about the root disk.
    assert "down" in down(wide(node), looked=True)
    assert node.vmids == [PET]


def test_down_fails_when_the_machine_has_a_pending_detach_of_its_state(node: Node) -> None:
    up(wide(node))
    node.somebody_asks("PUT", f"/nodes/pve/lxc/{CATTLE}/config", delete="mp0", description="my notes")
    said, _ = end_of(down, wide(node))
    assert "was down" not in said, "a running agent was reported as down"


@pytest.mark.parametrize("where", ["everywhere", "machine", "no access", "pet and machine"])
def test_down_and_forget_fail_when_the_token_cannot_see_the_machine(node: Node, where: str) -> None:
    up(wide(node))
    match where:
        case "everywhere":
            take_away(node, "VM.Audit")
        case "machine":
            narrow(node, f"/vms/{CATTLE}", "VM.Audit")
        case "no access":
            node.root("pveum", "acl", "modify", f"/vms/{CATTLE}", "--users", USER, "--roles", "NoAccess")
        case "pet and machine":
            for vmid in (PET, CATTLE):
                narrow(node, f"/vms/{vmid}", "VM.Audit")
    for verb in (down, forgotten):
        said, _ = end_of(verb, wide(node))
        assert node.running == [CATTLE]
        assert "was down" not in said, "a running agent was reported as down"
        assert "nothing to forget" not in said, "an agent that the token cannot see was reported as forgotten"


def test_down_and_forget_of_an_agent_without_a_machine_succeed(node: Node) -> None:
    node.somebody(150)
    assert "was down" in down(wide(node))
    assert "nothing to forget" in forgotten(wide(node))


# Hints never suggest to give up a state


@pytest.mark.parametrize("keys", [{}, {"state": {"pet": PET}}])
@pytest.mark.parametrize(
    "notes", ["my notes", "paddock: v=1 role=horse", "paddock: v=1 role=pet x\npaddock: v=1 role=pet"]
)
def test_the_hint_for_a_pet_without_its_mark_is_the_line_to_put_back(
    node: Node, keys: dict[str, Any], notes: str
) -> None:
    up(wide(node, **keys))
    down(wide(node, **keys))
    node.root("pct", "set", PET, "--hostname", "renamed")
    node.put(PET, description=notes)
    before = node.vmids
    for verb in (up, down, cycle, forgotten):
        said, hint = end_of(verb, wide(node, **keys))
        assert node.vmids == before, "a new pet without the state was created"
        assert "nothing to forget" not in said, "an existing state was reported as forgotten"
        assert "another number" not in hint
        assert hint.endswith(PET_LINE), "the hint is not the line to put back"


@pytest.mark.parametrize("keys", [{}, {"state": {"pet": PET}}])
def test_the_hint_for_a_running_agents_pet_without_its_mark_is_the_line_to_put_back(
    node: Node, keys: dict[str, Any]
) -> None:
    up(wide(node, **keys))
    node.put(PET, description="my notes")
    for verb in (up, down, cycle):
        _, hint = end_of(verb, wide(node, **keys))
        assert "detach" not in hint, "the hint suggests to detach a volume that holds a state"
        assert "another number" not in hint
        assert hint.endswith(PET_LINE), "the hint is not the line to put back"
    assert node.running == [CATTLE]


def test_no_plan_suggests_to_detach_or_remove_a_volume() -> None:
    cases = [(path, read_case(path)) for path in (param.values[0] for param in golden("plan/proxmox"))]
    found = [plan for path, case in cases for plan in plans(inputs(path, case), case).values()]
    hints = [refusal.hint for plan in found for refusal in plan.refusals if refusal.hint]
    wrong = [hint for hint in hints if any(word in hint for word in ("detach", "remove them", "remove it"))]
    assert hints
    assert not wrong


# Protection


@pytest.mark.parametrize("verb", [down, cycle])
def test_a_protected_machine_is_not_stopped(node: Node, verb: Callable[[PaperAgent], str]) -> None:
    up(wide(node))
    node.root("pct", "set", CATTLE, "--protection", "1")
    said, hint = end_of(verb, wide(node))
    assert node.running == [CATTLE], "a machine that cannot be destroyed was stopped"
    assert "is protected" in said
    assert f"pct set {CATTLE} --protection 0" in hint


def test_a_protected_machine_is_not_stopped_to_add_a_cache_volume(node: Node) -> None:
    up(wide(node, runtime="docker", container=CONTAINER))
    node.root("pct", "set", CATTLE, "--protection", "1")
    said, _ = end_of(up, wide(node, **DATA))
    assert node.running == [CATTLE], "a machine that cannot get a volume was stopped"
    assert "is protected" in said


def test_adopt_does_not_stop_a_protected_container(node: Node) -> None:
    node.somebody(999, hostname="storage", mp0="local-lvm:1,mp=/home/bee")
    node.somebody(200, hostname="bee", net0="name=eth0,bridge=vmbr0,ip=dhcp", protection=1)
    node.root("pct", "start", 200)
    target = AdoptTarget(200, "local-lvm:vm-999-disk-1")
    file: Any = describe(wide(node), target).said
    agent = wide(node, **file)
    said, _ = end_of(lambda each: adopt(each, target), agent)
    assert not node.writes, "adopt started although it cannot finish"
    assert "is protected" in said
