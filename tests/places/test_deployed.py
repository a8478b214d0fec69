"""What earlier versions deployed on a node is recognised: recorded containers, marks, volumes and machines."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from deployed import Deployed, PaperNode, paper_host, paper_node
from paddock.base.errors import Refused
from paddock.core.converge import down, plan_up, up
from paddock.core.deployment import Deployment
from paddock.core.observe import observe
from paddock.core.resolve import locate, resolve
from paddock.places.proxmox.node.notes import Mark
from paddock.plan.step import Plan, Refusal, Risk
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


# Version 0.2 has today's marks and identities: a newer Paddock recreates no container. It restarts each agent once: the
# lease is a program in Python now, ends what is left of the agent's account, and programs beside the agent have units.
LEASE = {"lease", "lease.py", "remains.py", "bundle.env", "environment", "enter.py", "programs/hermes"}


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        *((shape, "web") for shape in ("systemd-host", "systemd-account", "docker-host", "podman-host")),
        ("podman-account", "web"),
        ("hermes-host", "hermes"),
    ],
)
def test_an_agent_that_version_0_2_deployed_on_a_host_is_as_the_file_says(
    tmp_path: Path, shape: str, name: str
) -> None:
    recorded = Deployed(shape, "v2")
    expect_unchanged(paper_host(tmp_path, recorded, name), recorded)


@pytest.mark.parametrize("name", PETS)
def test_an_agent_that_version_0_2_deployed_on_a_node_is_as_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found = paper_node(tmp_path, "v2")
    play_ssh(monkeypatch, found.node)
    agent = found.agent(name)
    expect_unchanged(agent, Deployed("proxmox", "v2"))
    seen = agent.observe().machine
    assert (seen.status, seen.former) == ("running", None)
    assert seen.state == f"local-lvm:vm-{PETS[name]}-disk-1"
    template = agent.machine_want.template
    assert template
    assert seen.made_from.startswith(template.id)
    assert not found.node.writes


def test_a_changed_file_has_another_bundle_than_the_recorded_one(tmp_path: Path) -> None:
    """So that the tests above can fail."""
    recorded = Deployed("docker-host", "v2")
    agent = paper_host(tmp_path, recorded, "web")
    changed = agent.spec.model_copy(update={"environment": {"COLOUR": "red"}})
    with pytest.raises(AssertionError):
        expect_unchanged(replace(agent, spec=changed), recorded)
    assert [step.id for step in plan_of(replace(agent, spec=changed)).steps] == ["agent.configure", "agent.answer"]


def expect_unchanged(agent: Deployment, recorded: Deployed) -> None:
    """Expect that few files of the bundle differ, and one restart with its reason. No container is another."""
    located = locate(agent)
    bundle, before, plan = resolve(located).bundle, recorded.bundle(agent.name), plan_of(agent)
    files = {path: file.content for path, file in bundle.files.items()}
    differing = {path for path in {*files, *before} if files.get(path) != before.get(path)}
    assert not plan.refusals
    of_container = {"attach", "start"} if located.runtime.container else set()
    units = {
        path for path in differing if path.startswith("units/") and path.endswith((".lease.service", ".enter@.service"))
    }
    assert differing - units <= LEASE | of_container
    assert [step.id for step in plan.steps] == ["agent.configure", "agent.answer"]
    reason = "its configuration changed"
    reason += "; its container stays, with the software installed in it" if of_container else ""
    assert (plan.steps[0].reason, plan.steps[0].risk) == (reason, Risk.RESTARTS)


def plan_of(agent: Deployment) -> Plan:
    located = locate(agent)
    return plan_up(located, resolve(located).want(), observe(located))
