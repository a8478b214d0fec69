"""The cache volume: created once on the pet and mounted before the machine starts, after any fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from paddock.core.converge import down, plan_forget, up
from paddock.core.resolve import locate, resolve
from paddock.plan.agent import AgentSeen
from paddock.plan.container import ContainerSeen
from places.life import runs_until_done
from places.node import CATTLE, PET, Killed, Node, PaperAgent

WITH: dict[str, Any] = {"runtime": "docker", "container": {"install": True, "base": "debian:12", "data": "20G"}}
MOUNTS = [{"host": "/mnt/pve/hdd/bee", "path": "/big"}]
CACHE = "local-lvm:vm-100-disk-2"
PETS = {"vm-100-disk-0", "vm-100-disk-1", "vm-100-disk-2"}


def agent_on(node: Node, template: str) -> Callable[[], PaperAgent]:
    return lambda: node.agent(template=template, **WITH)


def expect_whole(node: Node) -> None:
    """Expect that the machine mounts the state and the cache, which the protected pet owns."""
    assert node.running == [CATTLE]
    assert node.config(CATTLE)["mp1"].startswith(f"{CACHE},mp=/var/lib/docker")
    pet = node.config(PET)
    assert pet["protection"] == 1
    assert pet["mp1"].startswith(f"{CACHE},mp=/var/lib/paddock-cache/home_bee,backup=0")
    assert {name for name in node.volumes if name.startswith("vm-100")} == PETS


@pytest.mark.parametrize("template", ["none", "auto"])
def test_the_cache_stays_on_the_pet_and_is_mounted_in_the_next_machine(node: Node, template: str) -> None:
    agent = agent_on(node, template)
    up(agent())
    expect_whole(node)
    assert "nothing to do" in up(agent())
    down(agent())
    assert not any(name.startswith("vm-101") for name in node.volumes)
    assert {name for name in node.volumes if name.startswith("vm-100")} == PETS
    up(agent())
    expect_whole(node)


@pytest.mark.parametrize("after", range(1, 16))
def test_up_with_a_cache_continues_after_a_kill_at_any_request(node: Node, after: int) -> None:
    node.kill_after = after
    ends = runs_until_done(up, agent_on(node, "none"))
    expect_whole(node)
    ends += runs_until_done(down, agent_on(node, "none"))
    assert node.vmids == [PET]
    assert node.volumes == PETS
    assert [type(end) for end in ends] == [Killed]


@pytest.mark.parametrize("after", range(1, 7))
def test_adding_a_cache_continues_after_a_kill_at_any_request(node: Node, after: int) -> None:
    up(node.agent(runtime="docker", container={"install": True, "base": "debian:12"}))
    node.sent.clear()
    node.kill_after = after
    ends = runs_until_done(up, agent_on(node, "none"))
    expect_whole(node)
    assert [type(end) for end in ends] == [Killed]


def as_wanted(agent: PaperAgent) -> AgentSeen:
    """Return the observation of a machine where everything is as the file says."""
    want = resolve(locate(agent)).want().container
    assert want
    there = ContainerSeen("up", "vfs", frozenset({want.image}), want.identity, ["tiny-tool"])
    return replace(agent.seen_as_wanted(), container=there)


@pytest.mark.parametrize("engine", ["up", "down: no storage driver works here"])
def test_a_cache_added_later_needs_a_new_image_and_container(node: Node, engine: str) -> None:
    up(node.agent(runtime="docker", container={"install": True, "base": "debian:12"}))
    agent = node.agent(**WITH)
    inside = as_wanted(agent)
    inside = replace(inside, container=replace(inside.container, engine=engine))
    plan = agent.plan_up(replace(agent.observe(), agent=inside))
    assert [step.id for step in plan.steps][-5:] == [
        *("cattle.reach", "image.pull", "container.create", "agent.configure", "agent.answer")
    ]
    assert list(plan.notes) == [
        "the container on the root disk is left there and not used; lost with the container: tiny-tool"
    ]


def test_up_waits_for_an_answer_after_the_machine_restarts(node: Node) -> None:
    up(node.agent(**WITH))
    agent = node.agent(runtime="docker", container={"install": True, "base": "debian:12", "data": "30G"}, mounts=MOUNTS)
    plan = agent.plan_up(replace(agent.observe(), agent=as_wanted(agent)))
    assert [step.id for step in plan.steps][-4:] == ["cattle.root", "cattle.reach", "mounts.check", "agent.answer"]
    plan = node.agent(**WITH).plan_up(replace(agent.observe(), agent=as_wanted(node.agent(**WITH))))
    assert not plan.steps


def test_the_cache_grows_while_the_machine_is_stopped(node: Node) -> None:
    up(node.agent(**WITH))
    node.sent.clear()
    up(node.agent(runtime="docker", container={"install": True, "base": "debian:12", "data": "30G"}))
    machine = [str(sent).rpartition("/")[2] for sent in node.writes if not sent.path.endswith("config")]
    assert machine[:3] == ["shutdown", "resize", "start"]
    assert "claim" not in node.config(PET)["description"] + node.config(CATTLE)["description"]
    assert node.config(PET)["mp1"].endswith("size=30G")


def test_forget_deletes_the_cache(node: Node) -> None:
    up(node.agent(**WITH))
    down(node.agent(**WITH))
    agent = node.agent(**WITH)
    seen, plan = plan_forget(agent)
    agent.carry_out(plan, seen)
    assert node.volumes == set()


def test_forget_on_a_shared_pet_keeps_the_other_agents_cache(node: Node) -> None:
    up(node.agent(**WITH))
    up(node.agent("ant", state={"pet": PET}))
    down(node.agent(**WITH))
    agent = node.agent(**WITH)
    seen, plan = plan_forget(agent)
    agent.carry_out(plan, seen)
    assert {name for name in node.volumes if name.startswith("vm-100")} == {"vm-100-disk-0", "vm-100-disk-3"}
    assert node.config(PET)["protection"] == 1
