"""Concurrent changes on a node by people, and by other runs of Paddock on this and other hosts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from paddock.base.errors import Refused
from paddock.channels import Guest, Unreachable
from paddock.core import converge
from paddock.core.converge import down, up
from paddock.core.lock import Busy
from paddock.core.observe import Observation
from paddock.core.resolve import Located
from paddock.places.proxmox.node.notes import Claim
from paddock.plan.actions import AgentAction, AwaitAnswer
from paddock.plan.agent import AgentSeen
from paper import PaperSide
from places.life import LXC, expect_down, expect_up, runs_until_done
from places.node import CATTLE, PET, Killed, Node, PaperAgent


@pytest.mark.parametrize("nth", [1, 2])
def test_up_does_not_use_a_number_that_someone_takes_meanwhile(node: Node, nth: int) -> None:
    number = PET if nth == 1 else CATTLE
    node.before("POST", LXC, lambda: node.somebody(number), nth=nth)
    assert runs_until_done(up, node.agent) == []
    assert "description" not in node.config(number)
    assert len(node.vmids) == 3
    assert len(node.running) == 1


def test_a_clone_does_not_use_a_number_that_someone_takes_meanwhile(node: Node) -> None:
    node.before("POST", "*/clone", lambda: node.somebody(CATTLE))
    assert runs_until_done(up, lambda: node.agent(template="auto")) == []
    assert "description" not in node.config(CATTLE)
    assert node.running == [103]


@pytest.mark.parametrize("nth", range(1, 4))
def test_up_reads_a_configuration_again_after_a_concurrent_change(node: Node, nth: int) -> None:
    up(node.agent())
    node.before("PUT", "*/config", lambda: node.root("pct", "set", CATTLE, "--tags", f"paddock;t{nth}"), nth=nth)
    assert runs_until_done(down, node.agent) == []
    expect_down(node)


@pytest.mark.parametrize(
    ("keys", "path", "disk"),
    [
        ({"machine": {"disk": "9G"}}, f"{LXC}/{CATTLE}/resize", "rootfs"),
        ({"state": {"size": "9G"}}, f"{LXC}/{PET}/resize", "mp0"),
    ],
)
def test_up_observes_again_when_someone_grows_the_disk(node: Node, keys: dict[str, Any], path: str, disk: str) -> None:
    up(node.agent())
    node.before("PUT", path, lambda: node.somebody_asks("PUT", path, disk=disk, size="9G"))
    assert runs_until_done(up, lambda: node.agent(**keys)) == []
    expect_up(node)


def test_down_keeps_a_machine_while_another_run_has_a_claim(node: Node) -> None:
    up(node.agent())
    claim = Claim("laptop", datetime.now(UTC) + timedelta(minutes=1))
    notes = node.config(CATTLE)["description"]
    node.put(CATTLE, description=claim.written_into(notes))
    with pytest.raises(Refused, match=rf"laptop is at work on container {CATTLE} \(bee\) until"):
        down(node.agent())
    assert CATTLE in node.vmids
    over = Claim("laptop", datetime.now(UTC) - timedelta(seconds=1))
    node.put(CATTLE, description=over.written_into(notes))
    down(node.agent())
    expect_down(node)


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_claim_lasts_by_the_clock_of_the_node(node: Node, hours: int) -> None:
    """The clock of this computer may be hours off."""
    there = datetime.now(UTC) + timedelta(hours=hours)
    node.clock = lambda: there
    up(node.agent())
    notes = node.config(CATTLE)["description"]
    node.put(CATTLE, description=Claim("laptop", there + timedelta(minutes=1)).written_into(notes))
    with pytest.raises(Refused, match=f"laptop is at work on .* until {there + timedelta(minutes=1):%H:%M:%S} UTC"):
        down(node.agent())
    node.put(CATTLE, description=Claim("laptop", there - timedelta(minutes=1)).written_into(notes))
    down(node.agent())
    expect_down(node)


def test_the_claim_of_a_killed_run_does_not_block_the_next_run(node: Node) -> None:
    up(node.agent())
    node.sent.clear()
    node.kill_after = 4  # the claim is written, the machine not yet deleted
    with pytest.raises(Killed):
        down(node.agent())
    assert "paddock-claim" in node.config(CATTLE)["description"]
    up(node.agent())  # `up` works too
    expect_up(node)
    down(node.agent())
    expect_down(node)


def test_a_running_delete_blocks_down_on_another_host(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    up(node.agent())
    said: list[str] = []

    def other_laptop() -> None:
        with monkeypatch.context() as there:
            there.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
            try:
                down(node.agent(alongside=True))
            except Refused as refused:
                said.append(refused.message)

    node.before("DELETE", f"{LXC}/{CATTLE}", other_laptop)
    down(node.agent())
    assert "is at work on container 101 (bee)" in said[0]
    expect_down(node)


def test_a_second_run_on_this_host_names_the_first(node: Node) -> None:
    go = node.hold_creates()
    first = threading.Thread(target=up, args=(node.agent(),))
    first.start()
    while not node.world.tasks.running():
        time.sleep(0.002)
    with pytest.raises(Busy, match=r"bee: another run is working on it \(process \d+\)"):
        down(node.agent())
    up_of_another = threading.Thread(target=up, args=(node.agent("ant"),))  # other agents do not wait
    up_of_another.start()
    go.set()
    first.join()
    up_of_another.join()
    assert len(node.running) == 2


@pytest.mark.parametrize("path", [LXC, "/cluster/resources"])
def test_up_does_not_create_a_machine_that_another_run_is_creating(node: Node, path: str) -> None:
    """Another host brings the same agent up, and begins to create the machine during this run's observation."""
    up(node.agent())
    down(node.agent())
    create = next(sent for sent in node.writes if sent.params.get("vmid") == str(CATTLE))
    claim = Claim("laptop/00000001", datetime.now(UTC) + timedelta(minutes=15))
    params = {**create.params, "description": claim.written_into(create.params["description"])}
    go = node.hold_creates()

    def elsewhere() -> None:
        with node.unnoted():
            node.client().send("POST", LXC, params)

    node.before("GET", path, elsewhere)
    threading.Timer(0.05, go.set).start()
    with pytest.raises(Refused, match=rf"is at work on container {CATTLE} |created machine {CATTLE} for bee"):
        up(node.agent())
    assert node.vmids == [PET, CATTLE]


def test_two_runs_from_two_hosts_create_one_pet_and_one_machine(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converge, "agent_lock", nullcontext)
    monkeypatch.setattr(converge, "place_lock", lambda *_: nullcontext())
    ends: list[str] = []

    def run(agent: PaperAgent) -> None:
        try:
            up(agent)
        except Refused as refused:
            ends.append(refused.message)

    runs = [threading.Thread(target=run, args=(node.agent(alongside=True),)) for _ in range(2)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert len(ends) <= 1, "one of them wins"
    up(node.agent())
    assert len(node.running) == 1
    assert len(node.vmids) == 2


def test_up_does_not_wait_for_the_lock_of_another_agents_machine(node: Node) -> None:
    up(node.agent("ant"))
    locked = node.vmids[-1]
    node.put(locked, lock="backup")
    agent = node.agent("bee")
    up(agent)
    assert "is locked" not in str(agent.told)


class Disconnected(PaperSide):
    """Machines that cannot be reached any more while their agents are verified."""

    def __init__(self, inside: dict[str, AgentSeen], first: Callable[[], None]) -> None:
        super().__init__(inside)
        self._first = first

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        if isinstance(action, AwaitAnswer):
            self._first()
            raise Unreachable("connection refused")
        super().perform(agent, action, seen, reach)


def claim_machine(node: Node) -> None:
    claim = Claim("laptop/00000001", datetime.now(UTC) + timedelta(minutes=5))
    node.put(CATTLE, description=claim.written_into(node.config(CATTLE)["description"]))


def remove_machine(node: Node) -> None:
    node.root("pct", "stop", CATTLE)
    node.root("pct", "destroy", CATTLE)


def replace_machine(node: Node) -> None:
    remove_machine(node)
    mark = "paddock: v=2 role=cattle agent=home_bee maker=laptop/00000001"
    node.somebody(CATTLE, pool="paddock", description=mark)


@pytest.mark.parametrize(
    ("happening", "told"),
    [
        (claim_machine, rf"laptop/00000001 is at work on container {CATTLE} \(bee\)"),
        (remove_machine, "another run has removed the machine of bee"),
        (replace_machine, f"laptop/00000001 created machine {CATTLE} for bee meanwhile"),
    ],
)
def test_a_run_that_loses_its_machine_names_the_run_that_took_it(
    node: Node, happening: Callable[[Node], None], told: str
) -> None:
    node.side = Disconnected(node.machines.inside, lambda: happening(node))
    with pytest.raises(Refused, match=f"bee: {told}"):
        up(node.agent())


def test_a_lost_connection_that_no_run_caused_is_reported_as_it_is(node: Node) -> None:
    node.side = Disconnected(node.machines.inside, lambda: None)
    with pytest.raises(Unreachable, match="connection refused"):
        up(node.agent())
