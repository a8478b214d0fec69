"""Which tasks of the same token a verb waits for: those that may change what its agent has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from paddock.core.converge import down, up
from paddock.verbs import templates
from places.life import LXC
from places.node import BASE, CATTLE, MACHINES, PET, Node

ANTS = 103  # the machine of the other agent


@pytest.fixture
def two(node: Node) -> Node:
    up(node.agent())
    up(node.agent("ant"))
    assert node.running == [CATTLE, ANTS]
    return node


@contextmanager
def shutting_down(node: Node, vmid: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Keep the shutdown of a machine under way, requested by the token that the agents share."""
    go, shutdown = threading.Event(), node.machines.shutdown

    def slow(number: int, timeout: float) -> bool:
        go.wait(20)
        return shutdown(number, timeout)

    monkeypatch.setattr(node.machines, "shutdown", slow)
    agent = node.agent("ant" if vmid == ANTS else "bee")
    upid = str(agent.client.send("POST", f"{LXC}/{vmid}/status/shutdown", {"timeout": 60, "forceStop": 1}))
    try:
        yield go
    finally:
        go.set()
        agent.client.wait(upid, 600)


def test_a_verb_does_not_wait_for_the_task_of_another_agent(two: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with shutting_down(two, ANTS, monkeypatch):
        agent = two.agent(alongside=True)
        assert agent.observe().machine.status == "running"
        assert "nothing to do" in up(agent)
        assert "busy" not in str(agent.told)
        place = two.agent(alongside=True)
        place.node.observe()  # of no agent, as `template list` does
        assert "busy" not in str(place.told)


def test_a_verb_waits_for_a_task_of_its_own_machine(two: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with shutting_down(two, CATTLE, monkeypatch) as go:
        agent = two.agent(alongside=True)
        agent.told.when(f"busy with vzshutdown {CATTLE}", go.set)
        assert agent.observe().machine.status == "stopped"


def test_a_new_agent_does_not_wait_for_a_machine_of_another(two: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    down(two.agent())
    with shutting_down(two, ANTS, monkeypatch):
        agent = two.agent(alongside=True)
        up(agent)
        assert "busy" not in str(agent.told)


def test_a_template_is_built_after_the_node_has_made_the_builder_of_a_killed_run(node: Node) -> None:
    up(node.agent(template="auto"))
    before = set(node.vmids)
    [notes] = [text for vmid in before if "role=template" in (text := str(node.config(vmid)["description"]))]
    killed = node.agent(template="auto")
    go = node.hold_creates()
    number = next(vmid for vmid in range(100, 200) if vmid not in before)
    params: dict[str, str | int] = {"ostemplate": BASE, "rootfs": "local-lvm:1", "features": "nesting=1"}
    builder = {"description": notes.replace("role=template", "role=builder").replace("epoch=1", "epoch=2")}
    upid = str(killed.client.send("POST", LXC, {"vmid": number, **params, **builder, "pool": MACHINES}))
    agent = node.agent(template="auto", alongside=True)
    agent.told.when(f"busy with vzcreate {number}", go.set)
    assert list(templates.build([agent], rebuild=True))
    assert f"busy with vzcreate {number}" in str(agent.told)
    killed.client.wait(upid, 600)
    assert len(set(node.vmids) - before) == 1, "the new template, and no builder"


def test_a_new_agent_waits_for_a_container_that_may_become_its_own(node: Node) -> None:
    go = node.hold_creates()
    agent = node.agent()
    client = agent.client
    params: dict[str, str | int] = {"vmid": PET, "ostemplate": BASE, "rootfs": "local-lvm:1", "features": "nesting=1"}
    upid = str(client.send("POST", LXC, {**params, "pool": MACHINES}))
    agent.told.when(f"busy with vzcreate {PET}", go.set)
    agent.observe()
    assert f"busy with vzcreate {PET}" in str(agent.told)
    client.wait(upid, 600)
