"""What earlier versions deployed on a node is recognised: recorded containers, marks, volumes and machines."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from deployed import PaperNode, paper_node
from paddock.base.errors import Refused
from paddock.core.converge import down, up
from paddock.places.proxmox.node.notes import Mark
from paddock.plan.step import Refusal
from places.life import runs_until_done
from places.node import Killed, play_ssh

PETS = {"web": 100, "box": 103}


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PaperNode:
    """The node as it was recorded, without pools."""
    found = paper_node(tmp_path)
    play_ssh(monkeypatch, found.node)
    return found


@pytest.fixture
def deployed(recorded: PaperNode) -> PaperNode:
    """The recorded node, after root has put its machines and pets into pools."""
    for pool in ("paddock", "paddock-state"):
        recorded.node.root("pveum", "pool", "add", pool)
    for name in PETS:
        for command in commands_of(refusal_of(recorded, name)):
            recorded.node.root(*shlex.split(command))
    return recorded


def refusal_of(deployed: PaperNode, name: str) -> Refusal:
    found = deployed.agent(name).plan_up().refusals
    assert len(found) == 1
    return found[0]


def commands_of(refusal: Refusal) -> list[str]:
    """Return the commands for root in a hint."""
    line = str(refusal.hint).partition("run as root on the node: ")[2].partition("\n")[0]
    return line.split(" && ")


def test_up_names_the_commands_that_put_a_recorded_agent_into_the_pools(recorded: PaperNode) -> None:
    node = recorded.node
    before = {vmid: node.config(vmid) for vmid in node.vmids}
    assert refusal_of(recorded, "web").code == "pools.unlisted"
    pools = [line for line in recorded.agent("web").examine()[1] if line.startswith("pveum pool")]
    for line in pools:
        node.root(*shlex.split(line))
    found = refusal_of(recorded, "web")
    assert found.code == "pools.outside"
    assert commands_of(found) == ["pveum pool modify paddock --vms 101", "pveum pool modify paddock-state --vms 100"]
    with pytest.raises(Refused):
        up(recorded.agent("web"))
    with pytest.raises(Refused):
        down(recorded.agent("web"))
    assert {vmid: node.config(vmid) for vmid in node.vmids} == before


@pytest.mark.parametrize("name", PETS)
def test_up_plans_to_give_a_recorded_agent_its_project(deployed: PaperNode, name: str) -> None:
    plan = deployed.agent(name).plan_up()
    assert plan.refusals == ()
    assert [step.id for step in plan.steps[:2]] == ["pet.rename", "cattle.rename"]
    # What is inside the machine gets the project too, and nothing else changes.
    inside = {"agent.rename", "container.create", "container.recreate", "agent.configure", "agent.answer"}
    assert {step.id for step in plan.steps[2:]} <= inside


@pytest.mark.parametrize("name", PETS)
def test_a_recorded_machine_and_its_state_belong_to_their_agent(deployed: PaperNode, name: str) -> None:
    seen = deployed.agent(name).observe()
    assert seen.machine.status == "running"
    assert seen.machine.state == f"local-lvm:vm-{PETS[name]}-disk-1"
    assert seen.machine.former
    assert seen.machine.former.in_words == f"{name}, which has no project"


@pytest.mark.parametrize("killed_after", range(5))
def test_recorded_agents_keep_pet_volumes_and_machine(deployed: PaperNode, killed_after: int) -> None:
    node = deployed.node
    before = {vmid: node.config(vmid) for vmid in node.vmids}
    volumes, running = node.volumes, node.running
    for name, pet in PETS.items():
        node.sent.clear()
        node.kill_after = killed_after
        ends = runs_until_done(up, lambda name=name: deployed.agent(name))  # type: ignore[misc]
        assert [type(end) for end in ends] == [Killed] * bool(killed_after)
        assert deployed.agent(name).plan_up().empty
        was, now = before[pet], node.config(pet)
        for key in [key for key in was if key.startswith("mp")]:
            assert now[key] == was[key].replace(f"/{name},", f"/home_{name},")
        assert now["protection"] == 1
    assert node.volumes == volumes
    assert node.running == running
    assert node.vmids == list(before)
    for vmid in running:
        now, was = node.config(vmid), before[vmid]
        mark, old = Mark.from_notes(now.pop("description")), Mark.from_notes(was.pop("description"))
        assert mark
        assert old
        assert old.agent
        assert mark == old.renamed(old.agent, mark.agent or old.agent)
        assert str(mark.agent) == f"home_{old.agent.name}"
        assert now == was
