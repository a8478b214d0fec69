"""A node of a cluster: what is on other nodes is seen and not changed, and a dead node stops nothing elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.base.errors import PaddockError, Refused
from paddock.core.converge import cycle, down, forget, plan_forget, up
from paddock.core.open import deployments
from paddock.kinds import load
from paddock.places.contract import Finding
from paddock.places.proxmox.api import errors
from paddock.places.proxmox.api.client import TaskFailed
from paddock.places.proxmox.api.errors import UnderHa
from paddock.show.reporter import Reporter
from places.node import CATTLE, DEPLOYER, PET, WIDE, Node, PaperAgent, play_ssh
from pvebox.cluster.fixture import default_fixture
from pvebox.cluster.hamanager import HaManager
from pvebox.console.console import Console
from sandbox.conformance.recordings import load as recorded

NAMED: dict[str, Any] = {"state": {"pet": PET}, "machine": {"vmid": CATTLE}}
SHARED: dict[str, Any] = {"state": {"storage": "shared"}, "machine": {"storage": "shared"}}
NUMBERED: dict[str, Any] = {"state.pet": {"state": {"pet": 105}}, "machine.vmid": {"machine": {"vmid": 105}}}
DELETES = re.compile(r"\b(destroy|rm|delete|detach|unlock|force|purge)\b")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A cluster of three nodes with a shared storage, so that two of them have quorum."""
    given = default_fixture(("pve", "pve2", "pve3"))
    given["storages"]["shared"] = {
        "type": "dir",
        "path": "/mnt/shared",
        "content": ["rootdir", "images", "backup"],
        "shared": 1,
    }
    node = Node(tmp_path, nodes=("pve", "pve2", "pve3"), given=given)
    play_ssh(monkeypatch, node)
    return node


def migrate(node: Node, vmid: int, target: str) -> None:
    """Move a container to another node, as root may, and let the list of the cluster show it."""
    Console(node.world).run(["pct", "migrate", str(vmid), target])
    assert node.world.configs.node_of(vmid) == target
    node.world.statistics.gather()


def asked_below(node: Node, name: str) -> list[str]:
    """Return the requests of Paddock that only that node could answer."""
    return [sent.path for sent in node.sent if sent.path.startswith(f"/nodes/{name}/")]


def sentences(agent: PaperAgent) -> str:
    """Return what plan, down, cycle and verify say of an agent."""
    texts = []
    for verb in (up, down, cycle):
        with pytest.raises(PaddockError) as caught:
            verb(agent)
        texts.append(f"{caught.value.message}\n{caught.value.hint}")
    texts += [f"{found.evidence}\n{found.hint}" for found in verified(agent)]
    return "\n".join(texts)


def verified(agent: PaperAgent) -> list[Finding]:
    place = agent.node
    return list(place.verify(agent.machine_want, place.observe(agent.machine_want)))


def test_up_creates_pet_and_machine_on_the_node_of_the_file(cluster: Node) -> None:
    up(cluster.agent(node="pve2"))
    assert {sent.path.split("/")[2] for sent in cluster.writes} == {"pve2"}
    assert "nothing to do" in up(cluster.agent(node="pve2"))


@pytest.mark.parametrize("token", [DEPLOYER, WIDE])
@pytest.mark.parametrize("pools", [None, "none"])
def test_up_refuses_a_second_state_when_the_pet_is_on_another_node(cluster: Node, token: str, pools: Any) -> None:
    if pools and token == DEPLOYER:
        pytest.skip("without pools the token needs rights on all containers")
    up(cluster.agent(node="pve2", token=token, pools=pools))
    cluster.world.statistics.gather()  # every few seconds, on a real one
    cluster.sent.clear()
    with pytest.raises(Refused, match="container 100 on node pve2 has the state of bee") as caught:
        up(cluster.agent(node="pve", token=token, pools=pools))
    assert "machine.node: pve2" in str(caught.value.hint)
    with pytest.raises(Refused, match="container 101 on node pve2 is the machine of bee"):
        down(cluster.agent(node="pve", token=token, pools=pools))
    assert not cluster.writes


def test_agents_of_one_place_may_be_on_two_nodes(cluster: Node) -> None:
    cluster.agent()  # writes its file
    file = cluster._folder / "paddock.yaml"
    sets = ["agents.bee.machine.node=pve2", "agents.ant={kind: service, command: [/bin/true], place: home}"]
    with deployments(load(file, sets=sets), [], Reporter()) as agents:
        assert {agent.name: agent.where for agent in agents} == {"bee": "home (pve2)", "ant": "home"}
        nodes = {agent.name: agent.place._client.node for agent in agents}  # type: ignore[attr-defined]
    assert nodes == {"bee": "pve2", "ant": "pve"}


# Migrated


@pytest.mark.parametrize("keys", [{}, NAMED], ids=["found", "named"])
def test_a_pet_that_was_migrated_is_never_called_foreign_or_incomplete(cluster: Node, keys: dict[str, Any]) -> None:
    up(cluster.agent(**keys))
    cluster.root("pct", "stop", CATTLE)
    migrate(cluster, PET, "pve2")
    cluster.sent.clear()
    said = sentences(cluster.agent(**keys))
    assert not cluster.writes
    assert "container 100 on node pve2 has the state of bee" in said
    assert "not by" not in said
    assert "incomplete" not in said
    assert not DELETES.findall(said.replace("detached", "")), said
    migrate(cluster, PET, "pve")
    up(cluster.agent(**keys))
    assert cluster.running == [CATTLE]


def test_a_machine_whose_state_stayed_behind_is_told_of_two_copies(cluster: Node) -> None:
    """Proxmox copies a local volume that a running machine writes to, and leaves the old one under the same name."""
    up(cluster.agent())
    volume = "local-lvm:vm-100-disk-1"
    migrate(cluster, PET, "pve2")
    with pytest.raises(Refused, match="container 100 on node pve2 has the state of bee") as caught:
        up(cluster.agent())
    assert f"the machine here mounts another volume of the name {volume}" in str(caught.value.hint)
    assert "docs/proxmox.md" in str(caught.value.hint)


def test_a_migrated_machine_is_not_called_foreign_by_its_number(cluster: Node) -> None:
    up(cluster.agent(**NAMED))
    cluster.put(CATTLE, mp0=None)
    cluster.root("pct", "stop", CATTLE)
    migrate(cluster, CATTLE, "pve2")
    with pytest.raises(Refused, match="container 101 on node pve2 is the machine of bee") as caught:
        up(cluster.agent(**NAMED))
    assert not DELETES.search(str(caught.value.hint))


def test_a_number_of_a_container_on_another_node_is_told_with_that_node(cluster: Node) -> None:
    cluster.somebody(105, hostname="web")
    migrate(cluster, 105, "pve2")
    for key, keys in NUMBERED.items():
        with pytest.raises(Refused, match=rf"{key}: 105 is taken by container 105 \(web\) on node pve2") as caught:
            up(cluster.agent(token=WIDE, **keys))
        assert not DELETES.search(str(caught.value.hint))


# A dead node


def forget_all(agent: PaperAgent) -> None:
    seen, plan = plan_forget(agent)
    forget(agent, plan, seen)


def test_a_dead_node_stops_nothing_on_the_others(cluster: Node) -> None:
    """Its members are known and cannot be reached; nothing is asked of it."""
    up(cluster.agent("ant", node="pve2"))
    up(cluster.agent())
    cluster.world.members.offline.add("pve2")
    cluster.sent.clear()
    assert "nothing to do" in up(cluster.agent())
    up(cluster.agent(machine={"cores": 3}))
    cycle(cluster.agent(machine={"cores": 3}))
    down(cluster.agent())
    up(cluster.agent())
    assert asked_below(cluster, "pve2") == []


@pytest.mark.parametrize(("token", "pools"), [(DEPLOYER, None), (WIDE, None), (WIDE, "none")])
def test_an_agent_of_a_dead_node_gets_no_second_state(cluster: Node, token: str, pools: Any) -> None:
    up(cluster.agent(token=token, pools=pools, node="pve2", **NAMED))
    for stale in (False, True):  # five minutes later, its guests have no names any more
        cluster.world.members.offline.add("pve2")
        if stale:
            cluster.world.members.silent.add("pve2")
        cluster.world.statistics.gather()
        cluster.sent.clear()
        for keys in ({}, NAMED):
            with pytest.raises(Refused, match="on node pve2, which is offline") as caught:
                up(cluster.agent(token=token, pools=pools, **keys))
            said = f"{caught.value.message} {caught.value.hint}"
            assert "VM.Audit" not in said
            assert not DELETES.search(said)
        with pytest.raises(Refused, match="on node pve2, which is offline"):
            down(cluster.agent(token=token, pools=pools))
        assert not cluster.writes
        assert asked_below(cluster, "pve2") == []


def test_a_new_agent_is_created_beside_a_dead_node_if_a_person_says_that_it_is_new(cluster: Node) -> None:
    up(cluster.agent("ant", node="pve2"))
    cluster.world.members.offline.add("pve2")
    with pytest.raises(Refused, match="which is offline") as caught:
        up(cluster.agent("cat"))
    assert "`paddock up --new`" in str(caught.value.hint)
    up(cluster.agent("cat").beside_namesakes())
    assert "nothing to do" in up(cluster.agent("cat"))


def test_the_state_of_a_running_machine_may_be_on_a_dead_node(cluster: Node) -> None:
    up(cluster.agent(**SHARED, token=WIDE, pools="none"))
    migrate(cluster, PET, "pve2")
    cluster.world.members.offline.add("pve2")
    agent = cluster.agent(**SHARED, token=WIDE, pools="none")
    want = agent.machine_want
    assert agent.node.machine(want, agent.node.observe(want)).status == "running"
    [_, owner] = verified(agent)
    assert (owner.ok, "on node pve2, which is offline" in owner.evidence) == (False, True)
    for verb in (up, down, cycle):
        with pytest.raises(Refused, match="on node pve2, which is offline"):
            verb(agent)
    assert cluster.running == [CATTLE]


def test_the_place_of_a_dead_node_is_told_at_once(cluster: Node) -> None:
    up(cluster.agent(node="pve2"))
    cluster.world.members.offline.add("pve2")
    cluster.sent.clear()
    for verb in (up, down, cycle):
        with pytest.raises(PaddockError, match="node pve2 is offline"):
            verb(cluster.agent(node="pve2"))
    assert asked_below(cluster, "pve2") == []
    with pytest.raises(PaddockError, match="has no node pve7"):
        up(cluster.agent(node="pve7"))


def test_a_silent_node_is_not_dead(cluster: Node) -> None:
    """Its status is unknown because it reports no figures; its API works."""
    up(cluster.agent(node="pve2"))
    cluster.world.members.silent.add("pve2")
    assert "nothing to do" in up(cluster.agent(node="pve2"))
    cycle(cluster.agent(node="pve2"))
    with pytest.raises(Refused, match="container 100 on node pve2 has the state of bee"):
        up(cluster.agent())


def test_a_node_that_does_not_answer_is_no_missing_privilege(cluster: Node) -> None:
    """For some seconds after a cut the node still counts as online."""
    up(cluster.agent(node="pve2"))
    cluster.fault("answer", "595:No route to host", path="/nodes/pve2/*", count=1000)
    with pytest.raises(Refused, match="on node pve2, which does not answer") as caught:
        up(cluster.agent())
    assert "VM.Audit" not in str(caught.value)


def test_forget_refuses_while_a_dead_node_may_use_the_state(cluster: Node) -> None:
    up(cluster.agent(**SHARED, token=WIDE, pools="none"))
    down(cluster.agent(**SHARED, token=WIDE, pools="none"))
    up(cluster.agent("ant", node="pve2", token=WIDE, pools="none"))
    cluster.world.members.offline.add("pve2")
    with pytest.raises(PaddockError, match="on node pve2, which is offline"):
        forget_all(cluster.agent(**SHARED, token=WIDE, pools="none"))
    assert PET in cluster.vmids
    cluster.world.members.offline.clear()
    forget_all(cluster.agent(**SHARED, token=WIDE, pools="none"))
    assert PET not in cluster.vmids


def test_forget_of_a_local_state_needs_no_dead_node(cluster: Node) -> None:
    up(cluster.agent("ant", node="pve2"))
    up(cluster.agent())
    down(cluster.agent())
    pet = next(vmid for vmid in cluster.vmids if cluster.config(vmid)["hostname"] == "bee-pet")
    cluster.world.members.offline.add("pve2")
    forget_all(cluster.agent())
    assert pet not in cluster.vmids


# High availability


def under_ha(node: Node, vmid: int, seconds: float) -> None:
    """Let HA manage a container, with daemons that act some seconds after a task has ended."""
    node.root("ha-manager", "add", f"ct:{vmid}")
    node.world.ha.manager = HaManager(node.world, seconds)


def test_a_machine_under_ha_is_not_recreated(cluster: Node) -> None:
    up(cluster.agent())
    under_ha(cluster, CATTLE, 0.1)
    before = cluster.config(CATTLE)
    cluster.sent.clear()
    for verb in (down, cycle):
        with pytest.raises(
            Refused, match=r"container 101 \(bee\) is managed by HA, and the plan destroys it"
        ) as caught:
            verb(cluster.agent())
        assert "`ha-manager remove ct:101`" in str(caught.value.hint)
    assert not cluster.writes
    assert (cluster.config(CATTLE), cluster.running) == (before, [CATTLE])
    cluster.root("ha-manager", "remove", "ct:101")
    cycle(cluster.agent())
    assert cluster.running == [CATTLE]


def test_a_change_waits_until_ha_has_stopped_and_started_the_machine(cluster: Node) -> None:
    """The tasks hastop and hastart end when the request is queued."""
    up(cluster.agent())
    under_ha(cluster, CATTLE, 0.2)
    up(cluster.agent(state={"size": "9G"}))  # the volume grows while the machine is stopped
    assert "size=9G" in cluster.config(PET)["mp0"]
    assert cluster.running == [CATTLE]
    types = [task.upid.type for task in cluster.world.tasks.newest_first()]
    assert types.index("hastart") < types.index("resize") < types.index("vzshutdown") < types.index("hastop")


def test_up_waits_for_a_stop_that_ha_has_queued(cluster: Node) -> None:
    """The stop would overtake a start."""
    up(cluster.agent())
    under_ha(cluster, CATTLE, 0.3)
    cluster.root("pct", "stop", CATTLE)
    assert cluster.running == [CATTLE]
    agent = cluster.agent()
    up(agent)
    assert "HA is at work on container 101 (bee) (request_stop); waiting for it to end" in str(agent.told)
    assert cluster.running == [CATTLE]


def test_a_stop_that_ha_never_carries_out_is_an_error(cluster: Node) -> None:
    """The daemons may be stopped, and the tasks succeed nevertheless."""
    up(cluster.agent())
    cluster.root("ha-manager", "add", "ct:101")
    with pytest.raises(PaddockError, match="machine 101 is running after 180 s, and should be stopped"):
        up(cluster.agent(state={"size": "9G"}))
    assert "size=8G" in cluster.config(PET)["mp0"]


def test_a_container_that_ha_ignores_is_kept_with_the_way_out(cluster: Node) -> None:
    """For start and stop it is not under HA, and only the request to destroy it tells."""
    up(cluster.agent())
    cluster.root("ha-manager", "add", "ct:101", "--state", "ignored")
    with pytest.raises(UnderHa, match="used in HA resources") as caught:
        cycle(cluster.agent())
    assert "ha-manager remove ct:101" in str(caught.value.hint)
    cluster.root("ha-manager", "remove", "ct:101")
    up(cluster.agent())
    assert cluster.running == [CATTLE]


# Quorum


def test_without_quorum_the_word_is_quorum(cluster: Node) -> None:
    """Proxmox says `Permission denied`, because the files of the cluster are read-only then."""
    up(cluster.agent())
    cluster.world.members.quorate = False
    assert "nothing to do" in up(cluster.agent())
    before = cluster.config(CATTLE)
    changed: dict[str, Any] = {"machine": {"cores": 3}}
    runs: list[tuple[Callable[[PaperAgent], str], str, dict[str, Any]]]
    runs = [(down, "bee", {}), (cycle, "bee", {}), (up, "bee", changed), (up, "ant", {})]
    for verb, name, keys in runs:
        with pytest.raises(PaddockError, match="the cluster has no quorum, so nothing can be changed") as caught:
            verb(cluster.agent(name, **keys))
        assert "pvecm status" in str(caught.value.hint)
    assert (cluster.config(CATTLE), cluster.running) == (before, [CATTLE])
    cluster.world.members.quorate = True
    cycle(cluster.agent())


def test_a_task_that_failed_without_quorum_says_so(cluster: Node) -> None:
    up(cluster.agent())
    denied = "unable to open file '/etc/pve/nodes/pve/lxc/101.conf.tmp.9' - Permission denied"
    cluster.fault("fail-task", denied, method="POST", path="*/shutdown")
    with pytest.raises(TaskFailed, match="the cluster has no quorum, so nothing can be changed: the task vzshutdown"):
        down(cluster.agent())


# A start that fails


def test_a_start_that_fails_says_why_before_the_log(cluster: Node) -> None:
    """Somebody's container on another node has the shared volume mounted."""
    keys = {**SHARED, "token": WIDE, "pools": "none"}
    up(cluster.agent(**keys))
    cluster.root("pct", "stop", CATTLE)
    volume = cluster.config(CATTLE)["mp0"].split(",")[0]
    cluster.somebody(300)
    migrate(cluster, 300, "pve2")
    cluster.put(300, mp0=f"{volume},mp=/mine")
    cluster.root("pct", "start", 300)
    with pytest.raises(TaskFailed) as caught:
        up(cluster.agent(**keys))
    first, second, *_ = caught.value.message.splitlines()
    assert first == (
        "machine 101 does not start: run_buffer: 322 Script exited with status 32"
        " (a volume could not be mounted: it is in use, or its filesystem is damaged)"
    )
    assert second == "the task vzstart failed: startup for container '101' failed"


def test_a_restart_that_fails_says_why_before_the_log(cluster: Node) -> None:
    up(cluster.agent())
    cluster.fault("fail-task", "no such logical volume pve/vm-100-disk-1", path="*/status/reboot")
    with pytest.raises(TaskFailed) as caught:
        up(cluster.agent(machine={"dns": ["9.9.9.9"]}))
    assert caught.value.message.startswith("machine 101 does not restart: no such logical volume pve/vm-100-disk-1\n")


RECORDED = {
    "run_buffer: 322 Script exited with status 2 (something that it mounts does not exist)": "startup for container",
    "no such logical volume pve/vm-200-disk-1": "no such logical volume",
    "bridge 'vmbr9' does not exist": "bridge 'vmbr9'",
    "CT is locked (backup)": "CT is locked",
    "volume 'livdir:500/vm-500-disk-0.raw' does not exist": "livdir",
}


@pytest.mark.parametrize(("why", "outcome"), RECORDED.items())
def test_the_reason_of_a_recorded_start_is_its_own_line(why: str, outcome: str) -> None:
    tasks = [case["task"] for case in recorded().cases if (case.get("task") or {}).get("type") == "vzstart"]
    failed = [task for task in tasks if outcome in task["exitstatus"] and "status 32" not in str(task["log"])]
    assert {errors.reason(task["exitstatus"], task["log"]) for task in failed} == {why}
