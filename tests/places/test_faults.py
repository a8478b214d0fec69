"""Faults during a run: the run observes again, or fails with a message and the next run continues."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from paddock.base.errors import PaddockError, Refused
from paddock.core.converge import cycle, down, up
from paddock.places.proxmox.api.client import TaskFailed
from paddock.places.proxmox.api.errors import AnswerLost, ApiError, Unauthorized
from paddock.places.proxmox.node import observe
from paddock.verbs import templates
from places.life import LXC, PETS_VOLUMES, STATE, expect_down, expect_up, runs_until_done
from places.node import CATTLE, DAILY, DEPLOYER, PET, WIDE, Killed, Node, PaperAgent

# Responses

UP = [(verb, nth) for verb, writes in (("up", 6), ("down", 6)) for nth in range(1, writes + 1)]


def with_fault(node: Node, verb: str, nth: int, kind: str, value: str = "") -> list[BaseException]:
    """Bring an agent up and down with a fault at one writing request; return the errors of the failed runs."""
    runs: list[BaseException] = []
    for each in (up, down):
        if each.__name__ == verb:
            node.before("*", "*", lambda: node.fault(kind, value), nth=nth)
        runs += runs_until_done(each, node.agent)
        (expect_up if each is up else expect_down)(node)
    assert not node.faults.listing()
    return runs


@pytest.mark.parametrize(("verb", "nth"), UP)
def test_a_response_lost_after_the_work_is_checked_by_observing_again(node: Node, verb: str, nth: int) -> None:
    assert with_fault(node, verb, nth, "lose") == []


@pytest.mark.parametrize(("verb", "nth"), UP)
def test_a_request_lost_before_the_work_is_repeated(node: Node, verb: str, nth: int) -> None:
    assert with_fault(node, verb, nth, "answer", "596") == []


@pytest.mark.parametrize(("kind", "value"), [("reset", ""), ("answer", "595"), ("answer", "503"), ("stall", "5")])
@pytest.mark.parametrize(("verb", "nth"), [("up", 3), ("down", 6)])
def test_every_kind_of_lost_request_is_handled_alike(node: Node, verb: str, nth: int, kind: str, value: str) -> None:
    assert with_fault(node, verb, nth, kind, value) == []


@pytest.mark.parametrize(("verb", "nth"), UP)
def test_the_next_run_continues_after_an_error_of_the_node(node: Node, verb: str, nth: int) -> None:
    [end] = with_fault(node, verb, nth, "answer", "500:cluster not ready - no quorum?")
    assert isinstance(end, ApiError)
    assert end.message.endswith("cluster not ready - no quorum?")


@pytest.mark.parametrize(("verb", "nth"), [("up", 1), ("up", 6), ("down", 3)])
def test_the_next_run_continues_after_the_token_expired(node: Node, verb: str, nth: int) -> None:
    [end] = with_fault(node, verb, nth, "answer", "401")
    assert isinstance(end, Unauthorized)


def test_a_timeout_counts_as_a_lost_response(node: Node) -> None:
    agent = node.agent()
    agent.client._http.timeout = httpx.Timeout(0.05)
    node.fault("stall", "5000", method="POST", path=LXC)
    up(agent)
    assert "no answer came back to POST /nodes/pve/lxc" in str(agent.told)
    expect_up(node)


@pytest.mark.parametrize("kind", ["reset", "answer"])
def test_every_read_is_retried_after_a_short_outage(node: Node, kind: str) -> None:
    for path in (
        "*/tasks",
        "*/lxc",
        "/cluster/resources",
        "*/config",
        "*/status",
        "*/interfaces",
        "*/log",
        "*/pending",
    ):
        node.fault(kind, "596", method="GET", path=path, count=2)
    assert runs_until_done(up, node.agent) == []
    assert runs_until_done(up, node.agent) == []
    expect_up(node)


@pytest.mark.parametrize("nth", range(1, 10))
def test_cycle_goes_on_when_pveproxy_restarts(node: Node, nth: int) -> None:
    """An update of Proxmox, or a new certificate, refuses connections for two or three seconds."""
    up(node.agent())
    node.before("*", "*", lambda: node.restart_pveproxy(3), nth=nth)
    cycle(node.agent())
    assert node.waited_in_vain == []
    expect_up(node)


def test_a_run_that_begins_while_pveproxy_restarts_waits_for_it(node: Node) -> None:
    node.restart_pveproxy(3)
    up(node.agent())
    expect_up(node)


def test_a_node_that_never_answers_is_an_error_with_a_message(node: Node) -> None:
    node.fault("reset", count=0)
    with pytest.raises(PaddockError, match="https://node:8006 does not answer"):
        up(node.agent())
    node.faults.clear()
    node.fault("lose", method="POST", path=LXC, count=0)
    node.before("POST", LXC, lambda: node.fault("answer", "596", method="POST", path=LXC, count=0))
    with pytest.raises(AnswerLost, match="596"):
        up(node.agent())
    assert len(node.writes) == 4  # the run observes again a limited number of times
    node.faults.clear()
    up(node.agent())
    expect_up(node)


# What a fault may leave


def claims(node: Node) -> list[int]:
    return [vmid for vmid in node.vmids if "paddock-claim:" in str(node.config(vmid).get("description"))]


def test_a_run_that_recovers_leaves_no_claim_on_the_pet(node: Node) -> None:
    """Runs on other computers would wait until it expires."""
    up(node.agent())
    down(node.agent())
    lock = "can't lock file '/run/lock/lxc/pve-config-100.lock' - got timeout"
    node.before("PUT", "*/100/config", lambda: node.fault("answer", f"500:{lock}", method="PUT"), nth=3)
    assert runs_until_done(up, lambda: node.agent("ant", state={"pet": PET})) == []
    assert claims(node) == []
    assert node.config(PET)["protection"] == 1


def test_a_claim_of_a_failed_run_is_in_the_next_plan(node: Node) -> None:
    up(node.agent())
    node.fault("fail-task", "the disk is on fire", path="*/start")
    grown: dict[str, Any] = {"state": {"size": "9G"}}
    with pytest.raises(TaskFailed):
        up(node.agent(**grown))
    assert claims(node) == [CATTLE]
    assert "claim.release" in [step.id for step in node.agent(**grown).plan_up().steps]
    up(node.agent(**grown))
    assert claims(node) == []
    assert node.agent(**grown).plan_up().empty


def test_a_token_that_may_not_write_notes_leaves_the_claim_and_goes_on(node: Node) -> None:
    up(node.agent())
    left = node.agent().node._holder.claim(datetime.now(UTC), timedelta(minutes=5))
    node.put(PET, description=left.written_into(node.config(PET)["description"]))
    agent = node.agent(token=DAILY)  # the run of the claim has ended by now
    node.fault("answer", "403:Permission check failed (/vms/100, VM.Config.Options)", method="PUT")
    up(agent)
    assert "the token may not write the notes of container 100 (bee-pet)" in str(agent.told)


def test_a_template_is_kept_when_the_response_to_its_conversion_is_lost(node: Node) -> None:
    node.fault("lose", "596", path="*/template")
    [line] = templates.build([node.agent(template="auto")], rebuild=False)
    assert line.endswith("is built")
    assert len(node.vmids) == 1
    assert claims(node) == []


@pytest.mark.parametrize("rebuild", [False, True])
def test_one_template_is_built_whatever_response_of_its_build_is_lost(node: Node, rebuild: bool) -> None:
    for nth in range(1, 9):
        node.before("*", "*", lambda: node.fault("lose"), nth=nth)
        [line] = templates.build([node.agent(template="auto")], rebuild=rebuild)
        assert line.endswith("is built")
        assert [vmid for vmid in node.vmids if not node.config(vmid).get("template")] == []
        assert len(node.vmids) == 1
        assert claims(node) == []
        node.root("pct", "destroy", node.vmids[0])


def test_an_error_of_the_node_is_not_taken_for_a_missing_pool(node: Node) -> None:
    node.fault("answer", "500:cluster not ready - no quorum?", path="/pools")
    with pytest.raises(ApiError, match="to GET /pools: the cluster has no quorum") as caught:
        up(node.agent())
    assert "until a majority of them is up" in str(caught.value.hint)


def test_a_crash_of_the_node_during_a_create_says_where_to_look(node: Node) -> None:
    """Nobody has read what has the number by now, so no hint says to destroy it."""
    node.fault("crash-task", method="POST", path=LXC)
    with pytest.raises(TaskFailed, match="vzcreate failed: unexpected status") as caught:
        up(node.agent())
    assert f"`pct config {PET}`, as root on its node, shows what it is" in str(caught.value.hint)
    assert "destroy" not in str(caught.value.hint)


# Tasks


@pytest.mark.parametrize(
    ("verb", "method", "path"),
    [("up", "POST", LXC), ("up", "POST", "*/start"), ("down", "POST", "*/shutdown"), ("down", "DELETE", "*/101")],
)
def test_the_next_run_continues_after_a_failed_task(node: Node, verb: str, method: str, path: str) -> None:
    if verb == "down":
        up(node.agent())
    node.fault("fail-task", "the disk is on fire", method=method, path=path)
    with pytest.raises(TaskFailed, match=r"(?s)failed: the disk is on fire\n.*TASK ERROR: the disk is on fire"):
        (up if verb == "up" else down)(node.agent())
    runs_until_done(up, node.agent)
    expect_up(node)
    down(node.agent())
    expect_down(node)


def test_a_task_with_warnings_counts_as_done(node: Node) -> None:
    node.fault("warn-task", "the disk is warm", path="*/start")
    agent = node.agent()
    up(agent)
    assert "WARN: the disk is warm" in str(agent.told)
    expect_up(node)


def test_a_full_storage_is_reported_and_leaves_no_half_made_container(node: Node) -> None:
    node.world.full.add("local-lvm")
    with pytest.raises(Refused, match="storage local-lvm needs 18G of free space and has 0G"):
        up(node.agent())
    node.world.full.clear()
    node.before("POST", LXC, lambda: node.world.full.add("local-lvm"), nth=2)
    with pytest.raises(TaskFailed, match="free space in thin pool pve/data reached threshold"):
        up(node.agent())
    expect_down(node)
    node.world.full.clear()
    up(node.agent())
    expect_up(node)


# Killed runs


def writes_of(node: Node, life: Callable[[], object]) -> int:
    before = len(node.writes)
    life()
    return len(node.writes) - before


@pytest.mark.parametrize("after", range(1, 13))
def test_the_next_run_continues_after_a_kill_at_any_request(node: Node, after: int) -> None:
    node.kill_after = after
    ends = runs_until_done(up, node.agent)
    expect_up(node)
    ends += runs_until_done(down, node.agent)
    expect_down(node)
    assert [type(end) for end in ends] == [Killed]


@pytest.mark.parametrize("after", range(1, 22))
def test_the_next_run_with_a_template_continues_after_a_kill_at_any_request(node: Node, after: int) -> None:
    node.kill_after = after
    ends = runs_until_done(up, lambda: node.agent(template="auto"))
    assert node.running == [CATTLE]
    templates = [vmid for vmid in node.vmids if node.config(vmid).get("template")]
    assert len(templates) == 1
    expect_up(node, templates[0])
    ends += runs_until_done(down, lambda: node.agent(template="auto"))
    expect_down(node, templates[0])
    assert [type(end) for end in ends] == [Killed]


@pytest.mark.parametrize("after", range(1, 8))
def test_a_pet_left_unprotected_is_protected_again(node: Node, after: int) -> None:
    up(node.agent())
    node.sent.clear()
    node.kill_after = after
    ends = runs_until_done(up, lambda: node.agent("ant", state={"pet": PET}))
    assert [type(end) for end in ends] == [Killed]
    pet = node.config(PET)
    assert pet["protection"] == 1
    assert [key for key in sorted(pet) if key.startswith(("mp", "unused"))] == ["mp0", "mp1"]
    assert node.config(102)["mp0"].startswith("local-lvm:vm-100-disk-2,mp=/var/lib/paddock/ant")
    assert node.running == [CATTLE, 102]


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize(("kind", "value"), [("lose", ""), ("answer", "596")])
def test_a_pet_gets_one_volume_whatever_response_is_lost(node: Node, kind: str, value: str, nth: int) -> None:
    up(node.agent())
    node.before("*", "*", lambda: node.fault(kind, value), nth=nth)
    assert runs_until_done(up, lambda: node.agent("ant", state={"pet": PET})) == []
    assert node.config(PET)["protection"] == 1
    assert node.volumes == PETS_VOLUMES | {"vm-100-disk-2", "vm-101-disk-0", "vm-102-disk-0"}


@pytest.mark.parametrize("nth", range(2, 16))
def test_one_template_is_built_whatever_response_is_lost(node: Node, nth: int) -> None:
    node.before("*", "*", lambda: node.fault("lose"), nth=nth)
    assert runs_until_done(up, lambda: node.agent(template="auto")) == []
    templates = [vmid for vmid in node.vmids if node.config(vmid).get("template")]
    assert len(templates) == 1
    expect_up(node, templates[0])


def test_the_ranges_of_the_fault_tests_cover_every_request(node: Node) -> None:
    """The ranges fit the current plans; a plan with more requests needs longer ranges."""
    assert writes_of(node, lambda: up(node.agent())) == 6
    assert writes_of(node, lambda: up(node.agent("ant", state={"pet": PET}))) == 7
    down(node.agent("ant", state={"pet": PET}))
    assert writes_of(node, lambda: down(node.agent())) == 6
    assert writes_of(node, lambda: up(node.agent(template="auto"))) + 2 + 6 == 22  # with the pet, and down


# Crashes of the node


def test_up_starts_the_machine_after_a_crash_of_the_node(node: Node) -> None:
    up(node.agent())
    node.crash()
    assert node.running == []
    up(node.agent())
    expect_up(node)


def test_up_starts_a_machine_again_that_stops_while_it_waits(node: Node) -> None:
    node.machines.unanswered = 99
    node.before("GET", "*/interfaces", lambda: node.root("pct", "stop", CATTLE), nth=2)
    node.before("GET", "*/interfaces", lambda: setattr(node.machines, "unanswered", 0), nth=3)
    agent = node.agent()
    up(agent)
    assert f"machine {CATTLE} is no longer running; observing again" in str(agent.told)
    expect_up(node)


def test_a_machine_that_always_stops_is_an_error_with_a_message(node: Node) -> None:
    for nth in range(1, 20):
        node.before("GET", "*/interfaces", lambda: node.machines.stop(CATTLE), nth=nth)
    with pytest.raises(PaddockError, match=f"machine {CATTLE} is no longer running") as caught:
        up(node.agent())
    assert "console" in str(caught.value.hint)
    assert node.waited_in_vain  # more stops than the run has attempts
    node.forget_what_was_to_happen()


def test_up_starts_a_machine_that_stops_during_the_observation(node: Node) -> None:
    up(node.agent())
    node.before("GET", "*/interfaces", lambda: node.root("pct", "stop", CATTLE))
    up(node.agent())
    expect_up(node)


def test_up_starts_a_machine_that_stops_before_its_restart(node: Node) -> None:
    up(node.agent())
    node.before("POST", "*/reboot", lambda: node.root("pct", "stop", CATTLE))
    up(node.agent(machine={"dns": ["9.9.9.9"]}))
    expect_up(node)


def test_up_waits_until_the_conversion_to_a_template_has_ended(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    rename = node.world.runtime.volumes.rename

    def slow(*arguments: Any) -> None:
        go.wait(5)
        rename(*arguments)

    monkeypatch.setattr(node.world.runtime.volumes, "rename", slow)
    node.kill_after = 9  # the conversion has been requested
    with pytest.raises(Killed):
        up(node.agent(template="auto"))
    assert str(node.writes[-1]).endswith("/template")
    agent = node.agent(template="auto")
    node.before("GET", "/nodes/pve/tasks", go.set, nth=2)
    up(agent)
    assert "busy with vztemplate 102" in str(agent.told)
    expect_up(node, 102)


def crash_in_a_create(node: Node, agent: PaperAgent, nth: int) -> None:
    """Crash the node during its nth create."""
    held = threading.Event()
    ends: list[str] = []

    def hold() -> None:
        node.hold_creates()
        held.set()

    def run() -> None:
        try:
            up(agent)
        except TaskFailed as end:
            ends.append(end.message)

    node.before("POST", LXC, hold, nth=nth)
    cut_off = threading.Thread(target=run)
    cut_off.start()
    held.wait(5)
    while not any(task.log for task in node.world.tasks.running()):
        time.sleep(0.002)
    node.crash()
    cut_off.join()
    assert "vzcreate failed: unexpected status" in ends[0]
    node.machines.obstacle = lambda task: None


def test_up_uses_another_number_than_a_container_left_by_a_crash(node: Node) -> None:
    crash_in_a_create(node, node.agent(), nth=2)
    assert node.config(CATTLE) == {"lock": "create"}
    up(node.agent())
    assert node.running == [102]
    assert node.config(102)["mp0"].startswith(STATE)


@pytest.mark.parametrize(("nth", "number"), [(1, 200), (2, 201)])
@pytest.mark.parametrize("token", [DEPLOYER, WIDE])
def test_a_container_left_by_a_crash_at_a_fixed_number(node: Node, token: str, nth: int, number: int) -> None:
    """Only a token that reads the container can know that it is incomplete and nobody's."""
    keys: dict[str, Any] = {"state": {"pet": 200}, "machine": {"vmid": 201}, "token": token}
    crash_in_a_create(node, node.agent(**keys), nth)
    node.world.statistics.gather()
    with pytest.raises(Refused, match=f"{number} is taken") as caught:
        up(node.agent(**keys))
    command = f"pct unlock {number} && pct destroy {number}"
    assert (command in str(caught.value.hint)) == (token == WIDE)
    if token == DEPLOYER:
        assert f"`pct config {number}`, as root on its node" in str(caught.value.hint)
        assert node.root("pct", "config", number) == "lock: create\n"
    node.root("pct", "unlock", number)
    node.root("pct", "destroy", number)
    up(node.agent(**keys))
    assert node.running == [201]


def test_a_clone_interrupted_by_a_crash_leaves_locks_that_root_removes(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "_SETTLE_SECONDS", 2)
    up(node.agent(template="auto", token=WIDE))
    down(node.agent(template="auto", token=WIDE))
    node.machines.crashes = True
    with pytest.raises(TaskFailed, match="vzclone failed: unexpected status"):
        up(node.agent(template="auto", token=WIDE))
    for number, lock in ((CATTLE, "create"), (102, "disk")):
        with pytest.raises(Refused, match=rf"container {number} .* has been locked \({lock}\)") as caught:
            up(node.agent(template="auto", token=WIDE))
        assert "docs/proxmox.md says how root removes it" in str(caught.value.hint)
        node.root("pct", "unlock", number)
    with pytest.raises(Refused, match=rf"container {CATTLE} .* has the mark of its machine") as caught:
        up(node.agent(template="auto", token=WIDE))
    assert f"pveum pool modify paddock --vms {CATTLE}\n" in str(caught.value.hint)
    node.root("pveum", "pool", "modify", "paddock", "--vms", CATTLE)
    up(node.agent(template="auto", token=WIDE))
    expect_up(node, 102)
