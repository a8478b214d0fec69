"""Two runs on one node or host exclude each other, whatever name or address each uses for it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from hostile import agents
from hostile.ground import Machine, as_root
from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.core import converge
from paddock.core.converge import down, up
from paddock.kinds import load
from paddock.places.proxmox.place import ProxmoxPlace
from places.node import BASE, CATTLE, DEPLOYER, ROOT, Node, PaperAgent, Told, play_ssh

LOOPBACK, LOCALHOST = "https://127.0.0.1:8006", "https://localhost:8006"
LXC = "/nodes/pve/lxc"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    (tmp_path / "node").mkdir()
    node = Node(tmp_path / "node")
    play_ssh(monkeypatch, node)
    return node


def project(
    folder: Path, node: Node, url: str, agent: str = "bee", nickname: str = "home", token: str = DEPLOYER, **more: Any
) -> PaperAgent:
    """Create a project with one agent, whose file has its own address and name for the node."""
    folder.mkdir(exist_ok=True)
    (folder / "id").touch()
    (folder / "id.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKpublic paddock\n")
    (folder / "token").touch(mode=0o600)
    (folder / "token").write_text(f"{token}={node.world.access.tokens[token].secret}")
    proxmox = {"url": url, "node": "pve", "token": {"file": "token"}, "storage": "local-lvm", "base": BASE}
    proxmox |= {"template": "none", "ssh": {"key": "id"}, **more}
    agents = {agent: {"kind": "service", "command": ["/bin/true"], "place": nickname}}
    (folder / "paddock.yaml").write_text(
        json.dumps({"project": "home", "places": {nickname: {"proxmox": proxmox}}, "agents": agents})
    )
    loaded = load(folder / "paddock.yaml")
    spec = loaded.spec.places[nickname].proxmox
    assert spec is not None
    told = Told()
    place = ProxmoxPlace(spec, folder, told.say)
    place._client._http._transport = node
    return PaperAgent.of_file(agent, loaded, place, told, node.side)


def ended(verb: Callable[[PaperAgent], str], agent: PaperAgent) -> str:
    """Run a verb and return its last message, or its error."""
    try:
        return verb(agent)
    except PaddockError as error:
        return f"{type(error).__name__}: {error.message}"


def test_agents_with_one_name_on_two_nodes_do_not_block_each_other(
    tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    other = Node(tmp_path / "other")
    go = node.hold_creates()
    first = threading.Thread(target=ended, args=(up, project(tmp_path / "a", node, "https://one:8006")))
    first.start()
    try:
        while not node.world.tasks.running():
            time.sleep(0.002)
        play_ssh(monkeypatch, other)
        said = ended(up, project(tmp_path / "b", other, "https://two:8006"))
    finally:
        go.set()
        first.join()
    assert said == "bee: up and working", f"an agent with the same name on another node blocked this one: {said}"


def test_two_runs_through_two_addresses_of_one_node_create_one_machine(tmp_path: Path, node: Node) -> None:
    """Both runs observe an empty node before either creates anything."""
    agents = [project(tmp_path / "a", node, LOOPBACK), project(tmp_path / "b", node, LOCALHOST)]
    seen = threading.Barrier(2)
    for agent in agents:
        agent.node.observe = _once_together(agent.node.observe, seen)  # type: ignore[method-assign]
    said: list[str] = []
    runs = [threading.Thread(target=lambda each=each: said.append(ended(up, each))) for each in agents]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert "bee: up and working" in said
    lost = [each for each in said if each != "bee: up and working"]
    assert all(re.search(r"\S+/[0-9a-f]{8} (is at work on container|created (pet|machine))", each) for each in lost), (
        f"a local lock stopped a run, not the node: {said}"
    )
    assert len(node.vmids) == 2
    assert len(node.running) == 1


def _once_together(observe: Callable[..., Any], barrier: threading.Barrier) -> Callable[..., Any]:
    def first_together(*agent: Any) -> Any:
        seen = observe(*agent)
        try:
            barrier.wait(2)
        except threading.BrokenBarrierError:
            pass
        finally:
            barrier.abort()
        return seen

    return first_together


def test_a_run_does_not_destroy_a_builder_that_another_run_is_using(tmp_path: Path, node: Node) -> None:
    bee = project(tmp_path / "a", node, LOOPBACK, "bee", "home", template="auto")
    ant = project(tmp_path / "b", node, LOCALHOST, "ant", "office", template="auto")
    said: list[str] = []
    destroyed: set[int] = set()

    def meanwhile() -> None:
        before = set(node.vmids)
        said.append(ended(up, ant))
        destroyed.update(before - set(node.vmids))

    # The first request after packages and code are installed.
    node.before("POST", "*/status/shutdown", meanwhile)
    mine = ended(up, bee)
    assert not destroyed, f"builder {destroyed} was destroyed while another run used it, which ended with: {mine}"
    assert mine == "bee: up and working"
    assert "is building template" in said[0]
    assert ended(up, ant) == "ant: up and working"


def test_a_run_stops_at_a_machine_that_another_run_is_deleting(tmp_path: Path, node: Node) -> None:
    up(project(tmp_path / "a", node, LOOPBACK))
    said: list[str] = []
    other = project(tmp_path / "b", node, LOCALHOST)
    node.before("DELETE", f"{LXC}/{CATTLE}", lambda: said.append(ended(down, other)))
    assert ended(down, project(tmp_path / "a", node, LOOPBACK)).startswith("bee: down")
    assert f"is at work on container {CATTLE} (bee) until" in said[0], "a local lock stopped the run, not the node"


def test_two_runs_with_two_tokens_create_only_one_pet(
    tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Proxmox creates a container, it shows neither the mark nor the task of another token.

    Without local locks, as for two runs on two machines.
    """
    monkeypatch.setattr(converge, "agent_lock", lambda *_: nullcontext())
    monkeypatch.setattr(converge, "place_lock", lambda *_: nullcontext())
    first, second = project(tmp_path / "a", node, LOOPBACK, token=ROOT), project(tmp_path / "b", node, LOCALHOST)
    go = node.hold_creates()
    runs = [threading.Thread(target=ended, args=(up, each)) for each in (first, second)]
    runs[0].start()
    while not node.world.tasks.running():
        time.sleep(0.002)
    runs[1].start()
    time.sleep(0.2)
    go.set()
    for run in runs:
        run.join()
    pets = [vmid for vmid in node.vmids if "role=pet" in node.config(vmid)["description"]]
    assert len(pets) == 1, f"the agent has two pets: {pets}"
    assert node.running == [CATTLE]


# On a host


SLOW = '[ "$1" != daemon-reload ] || sleep 3'


@as_root
def test_a_second_run_on_one_host_is_refused_while_the_first_is_at_work(ground: Machine) -> None:
    """The lock is on the host, because the two runs may be on two operators' machines."""
    runtime = agents.systemd()
    ground.stub("systemctl", SLOW)
    first: list[Result] = []
    running = threading.Thread(target=lambda: first.append(agents.apply(ground, runtime)))
    running.start()
    while "systemctl daemon-reload" not in ground.calls:
        assert running.is_alive()
    again, removal = agents.apply(ground, runtime), ground.ask(runtime.remove()).result
    running.join()
    assert first[0].ok, first[0].err
    assert not again.ok, "two runs configured one agent at the same time"
    assert "another run is configuring or removing this agent" in again.err
    assert not removal.ok, "a run removed an agent that another run was configuring"
    assert "another run is configuring or removing this agent" in removal.err
    ground.stub("systemctl", "")
    assert agents.apply(ground, runtime).ok
