"""`down` does not call an agent down that may run, and nothing is stopped that could then not be finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import PaddockError
from paddock.places import AdoptTarget
from paddock.run.adopt import adopt, describe
from paddock.run.verbs import cycle, down, forget, plan_forget, up
from places.node import CATTLE, PET, Node, PaperAgent, play_ssh

USER = "paddock@pve"
DATA: dict[str, Any] = {"runtime": "docker", "container": {"image": "docker.io/library/busybox:1", "data": "1G"}}
PET_LINE = "paddock: v=1 role=pet"
MACHINE_LINE = "paddock: v=1 role=cattle agent=bee"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    play_ssh(monkeypatch, node)
    return node


def end_of(verb: Callable[[PaperAgent], str], agent: PaperAgent) -> tuple[str, str]:
    """What a run said at its end, and its hint if it was an error."""
    try:
        return verb(agent), ""
    except PaddockError as end:
        return end.message, end.hint or ""


def forgotten(agent: PaperAgent) -> str:
    seen, plan = plan_forget(agent)
    return forget(agent, plan, seen)


def take_away(node: Node, *privileges: str) -> None:
    """The token's user loses privileges everywhere."""
    for role in ("PaddockGuests", "PaddockStorage", "PaddockNetwork"):
        node.world.access.roles[role] -= set(privileges)


def narrow(node: Node, path: str, *without: str) -> None:
    """The token's user gets a role at a deeper path, which replaces the one above."""
    left = node.world.access.roles["PaddockGuests"] - set(without)
    node.world.access.roles["Narrow"] = left
    node.root("pveum", "acl", "modify", path, "--users", USER, "--roles", "Narrow")


# An agent that runs is not down


def test_an_agent_whose_machine_lost_its_mark_is_not_down(node: Node) -> None:
    up(node.agent())
    node.put(CATTLE, description="my notes")
    said, hint = end_of(down, node.agent())
    assert node.running == [CATTLE]
    assert "was down" not in said, "an agent that runs was called down"
    assert hint.endswith(MACHINE_LINE)
    node.put(CATTLE, description=f"my notes\n\n{hint[-len(MACHINE_LINE) :]}")
    # A person looked, because the line tells nothing about the root disk.
    assert "down" in down(node.agent(), looked=True)
    assert node.vmids == [PET]


def test_an_agent_whose_machine_lets_its_state_go_with_the_next_stop_is_not_down(node: Node) -> None:
    up(node.agent())
    node.somebody_asks("PUT", f"/nodes/pve/lxc/{CATTLE}/config", delete="mp0", description="my notes")
    said, _ = end_of(down, node.agent())
    assert "was down" not in said, "an agent that runs was called down"


@pytest.mark.parametrize("where", ["everywhere", "machine", "no access", "pet and machine"])
def test_an_agent_whose_machine_cannot_be_seen_is_not_down(node: Node, where: str) -> None:
    up(node.agent())
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
        said, _ = end_of(verb, node.agent())
        assert node.running == [CATTLE]
        assert "was down" not in said, "an agent that runs was called down"
        assert "nothing to forget" not in said, "an agent that was not seen was called forgotten"


def test_an_agent_that_never_was_is_down(node: Node) -> None:
    node.somebody(150)
    assert "was down" in down(node.agent())
    assert "nothing to forget" in forgotten(node.agent())


# Wrong hints


@pytest.mark.parametrize("keys", [{}, {"state": {"pet": PET}}])
@pytest.mark.parametrize("verb", [up, down, cycle, forgotten])
@pytest.mark.parametrize(
    "notes", ["my notes", "paddock: v=1 role=horse", "paddock: v=1 role=pet x\npaddock: v=1 role=pet"]
)
def test_a_pet_that_lost_its_mark_leads_to_the_line(
    node: Node, keys: dict[str, Any], verb: Callable[[PaperAgent], str], notes: str
) -> None:
    up(node.agent(**keys))
    down(node.agent(**keys))
    node.root("pct", "set", PET, "--hostname", "renamed")
    node.put(PET, description=notes)
    before = node.vmids
    said, hint = end_of(verb, node.agent(**keys))
    assert node.vmids == before, "a new pet without a memory was made"
    assert "nothing to forget" not in said, "the memory is there, and was called forgotten"
    assert "another number" not in hint
    assert hint.endswith(PET_LINE), "the hint is not the line to put back"


@pytest.mark.parametrize("keys", [{}, {"state": {"pet": PET}}])
def test_a_pet_of_a_running_agent_that_lost_its_mark_leads_to_the_line(node: Node, keys: dict[str, Any]) -> None:
    up(node.agent(**keys))
    node.put(PET, description="my notes")
    for verb in (up, down, cycle):
        _, hint = end_of(verb, node.agent(**keys))
        assert "detach" not in hint, "the hint is to detach a volume that holds a memory"
        assert "another number" not in hint
        assert hint.endswith(PET_LINE), "the hint is not the line to put back"
    assert node.running == [CATTLE]


def test_no_plan_suggests_to_detach_or_remove_a_volume() -> None:
    cases = Path(__file__).parents[1] / "data" / "plan" / "proxmox"
    hints = [line for path in cases.glob("*.yaml") for line in path.read_text().splitlines() if "hint:" in line]
    wrong = [line for line in hints if any(word in line for word in ("detach", "remove them", "remove it"))]
    assert hints
    assert not wrong


# Protection


@pytest.mark.parametrize("verb", [down, cycle])
def test_a_protected_machine_is_not_stopped(node: Node, verb: Callable[[PaperAgent], str]) -> None:
    up(node.agent())
    node.root("pct", "set", CATTLE, "--protection", "1")
    said, hint = end_of(verb, node.agent())
    assert node.running == [CATTLE], "the machine was stopped, and cannot be destroyed"
    assert "is protected" in said
    assert f"pct set {CATTLE} --protection 0" in hint


def test_a_protected_machine_is_not_stopped_for_another_volume(node: Node) -> None:
    up(node.agent(runtime="docker", container={"image": "docker.io/library/busybox:1"}))
    node.root("pct", "set", CATTLE, "--protection", "1")
    said, _ = end_of(up, node.agent(**DATA))
    assert node.running == [CATTLE], "the machine was stopped, and cannot get the volume"
    assert "is protected" in said


def test_a_protected_container_is_not_stopped_for_adoption(node: Node) -> None:
    node.somebody(999, hostname="storage", mp0="local-lvm:1,mp=/home/bee")
    node.somebody(200, hostname="bee", net0="name=eth0,bridge=vmbr0,ip=dhcp", protection=1)
    node.root("pct", "start", 200)
    target = AdoptTarget(200, "local-lvm:vm-999-disk-1")
    file: Any = describe(node.agent(), target).said
    agent = node.agent(**file)
    said, _ = end_of(lambda each: adopt(each, target), agent)
    assert not node.writes, "an adoption was begun that cannot be ended"
    assert "is protected" in said


# Privileges


def nothing_happened(node: Node, said: str, privilege: str) -> None:
    assert node.running == [CATTLE], f"the machine was stopped without {privilege}"
    assert not node.writes, f"something was changed without {privilege}"
    assert privilege in said


@pytest.mark.parametrize("privilege", ["VM.Allocate", "VM.Config.Disk", "VM.Config.Options", "VM.PowerMgmt"])
@pytest.mark.parametrize("verb", [down, cycle])
def test_down_is_not_begun_without_a_privilege_that_it_ends_with(
    node: Node, verb: Callable[[PaperAgent], str], privilege: str
) -> None:
    up(node.agent())
    node.sent.clear()
    take_away(node, privilege)
    said, _ = end_of(verb, node.agent())
    nothing_happened(node, said, privilege)


@pytest.mark.parametrize(
    "privilege",
    ["VM.Clone", "VM.Config.CPU", "VM.Config.Memory", "VM.Config.Network", "Datastore.AllocateSpace", "SDN.Use"],
)
def test_cycle_is_not_begun_without_a_privilege_for_the_new_machine(node: Node, privilege: str) -> None:
    up(node.agent(template="auto"))
    node.sent.clear()
    take_away(node, privilege)
    said, _ = end_of(cycle, node.agent(template="auto"))
    nothing_happened(node, said, privilege)


def test_cycle_is_not_begun_where_up_would_be_refused(node: Node) -> None:
    up(node.agent())
    node.sent.clear()
    said, _ = end_of(cycle, node.agent(state={"size": "1G"}))
    assert node.running == [CATTLE], "the machine was destroyed, and no new one can be made"
    assert not node.writes
    assert "the file says 1G" in said


@pytest.mark.parametrize("privilege", ["VM.Config.Disk", "VM.Config.Options"])
def test_a_machine_is_not_stopped_for_a_state_that_cannot_grow(node: Node, privilege: str) -> None:
    up(node.agent())
    node.sent.clear()
    narrow(node, f"/vms/{PET}", privilege)
    said, _ = end_of(up, node.agent(state={"size": "9G"}))
    nothing_happened(node, said, privilege)


@pytest.mark.parametrize("privilege", ["VM.Allocate", "VM.Config.Disk", "VM.Config.Options"])
def test_forget_is_not_begun_without_a_privilege(node: Node, privilege: str) -> None:
    up(node.agent())
    down(node.agent())
    node.sent.clear()
    narrow(node, f"/vms/{PET}", privilege)
    said, _ = end_of(forgotten, node.agent())
    assert not node.writes, f"something was changed without {privilege}"
    assert node.config(PET)["protection"] == 1
    assert privilege in said


@pytest.mark.parametrize("privilege", ["VM.Config.Disk", "VM.Config.Options", "VM.PowerMgmt"])
def test_adopt_is_not_begun_without_a_privilege(node: Node, privilege: str) -> None:
    node.somebody(200, hostname="bee", mp0="local-lvm:1,mp=/home/bee", net0="name=eth0,bridge=vmbr0,ip=dhcp")
    node.root("pct", "start", 200)
    target = AdoptTarget(200, "mp0")
    file: Any = describe(node.agent(), target).said
    agent = node.agent(**file)
    narrow(node, "/vms/200", privilege)
    said, _ = end_of(lambda each: adopt(each, target, looked=True), agent)
    assert not node.writes, f"an adoption was begun without {privilege}"
    assert node.running == [200]
    assert privilege in said


def test_privileges_are_read_once_and_only_where_there_is_something_to_do(node: Node) -> None:
    def reads() -> int:
        return len([sent for sent in node.sent if sent.path == "/access/permissions"])

    up(node.agent())
    first = reads()
    assert "nothing to do" in up(node.agent())
    assert (first, reads()) == (1, 1)
