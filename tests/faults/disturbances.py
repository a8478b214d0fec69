"""What others may do while a run works, and what protects everyone's state from it.

Each protection is one function of the code. With the function switched off, the same disturbance does harm: so the
matrix can fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from core.account_agent import NEW, OLD, Program
from faults import account_scenarios, node_scenarios
from faults.account_world import AccountWorld
from faults.killing import Point
from faults.matrix import Scenario
from faults.node_world import NodeWorld
from paddock.base.errors import PaddockError
from paddock.core.converge import cycle, up
from paddock.places.proxmox.node.notes import Claim
from paddock.places.proxmox.safety.same_container import ExpectedContainers
from paddock.places.proxmox.worker import Worker
from paddock.plan.step import AdoptTarget
from paddock.runtimes.process import supervise
from places.node import CATTLE, MACHINES

ANOTHER: Final = "paddock: v=2 role=cattle agent=home_ant made-from=2a1ada6a385c"


@dataclass(frozen=True)
class Disturbance:
    """Something that happens at a point of a run."""

    name: str  # of the protection
    scenario: Scenario
    at: Callable[[Point], bool]  # the points at which it happens
    worst: str  # one that does harm if the protection is off; the short form tries this one
    happen: Callable[[Any], object]
    harm: Callable[[Any], list[str]]  # what it did, after the run has ended
    switch_off: tuple[Any, str, Callable[..., Any]]  # the function without which it does harm


# Somebody destroys the machine, and another agent's machine gets its number.


def give_the_number_away(world: NodeWorld) -> None:
    node = world.node
    if CATTLE in node.running:
        node.root("pct", "stop", CATTLE)
    if CATTLE in node.vmids:
        node.put(CATTLE, mp0=None, unused0=None)
        node.root("pct", "destroy", CATTLE)
    node.somebody(CATTLE, pool=MACHINES, hostname="ant", description=ANOTHER)
    node.root("pct", "start", CATTLE)


def harm_to_another_machine(world: NodeWorld) -> list[str]:
    theirs = [each for each in world.containers() if "home_ant" in each.notes]
    if not theirs:
        return ["the machine of another agent was destroyed"]
    return [] if theirs[0].status == "running" else ["the machine of another agent was stopped"]


# Another computer brings the agent up.


def up_elsewhere(world: NodeWorld) -> None:
    before = os.environ["XDG_STATE_HOME"]
    os.environ["XDG_STATE_HOME"] = str(world.folder / "elsewhere")
    try:
        with suppress(PaddockError):
            up(world.agent(alongside=True))
    finally:
        os.environ["XDG_STATE_HOME"] = before


def harm_of_two(world: NodeWorld) -> list[str]:
    world.settle()
    return [each for each in world.wrong() if "writers" in each]


# The node answers that it has changed a configuration, and does not keep the change.


def lose_a_mount(world: NodeWorld) -> None:
    send = world.node.handle_request

    def forgetful(request: Any) -> Any:
        answer = send(request)
        if request.method == "PUT" and b"mp0=" in request.read():
            world.node.handle_request = send  # type: ignore[method-assign]
            world.node.put(CATTLE, mp0=None)
        return answer

    world.node.handle_request = forgetful  # type: ignore[method-assign]


def loss_with_the_machine(world: NodeWorld) -> list[str]:
    """Let the agent learn something and recreate its machine, as if everything was fine."""
    if CATTLE not in world.node.running:
        return []  # the run has stopped, and nothing was written
    world.learn(CATTLE, "learned.md")
    learned = world.disks.memories()
    cycle(world.agent())
    up(world.agent())
    return [] if learned <= world.disks.memories() else ["what the agent learned was on the root disk, and is gone"]


# A second process of the agent starts on its state.


def start_a_second(world: AccountWorld) -> None:
    second = Program(world.state)
    with suppress(PaddockError, FileNotFoundError):
        second.start(world.program.version or OLD)
    if second.running and world.program.running:
        world.second_writers += 1
    second.stop()


def harm_of_writers(world: AccountWorld) -> list[str]:
    return [f"{world.second_writers} times two processes wrote to one state"] if world.second_writers else []


DISTURBANCES: Final = [
    Disturbance(
        "ownership proof",
        node_scenarios.node_down("a machine", node_scenarios.with_agent()),
        lambda point: point.is_edge,
        "cattle.stop before",
        give_the_number_away,
        harm_to_another_machine,
        (ExpectedContainers, "check", lambda self, now: None),
    ),
    Disturbance(
        "claim",
        node_scenarios.adopt("a container with its volume", node_scenarios.one_container, AdoptTarget(200, "mp0")),
        lambda point: point.step == "cattle.attach",
        "cattle.attach before PUT config",
        up_elsewhere,
        harm_of_two,
        (Claim, "blocks", lambda self, holder, now, has_ended: False),
    ),
    Disturbance(
        "read-back",
        node_scenarios.node_up("a new agent"),
        lambda point: str(point) == "cattle.create before",
        "cattle.create before",
        lose_a_mount,
        loss_with_the_machine,
        (Worker, "_expect_mount", lambda self, vmid, volume, path: None),
    ),
    Disturbance(
        "lease",
        account_scenarios.scenario(
            "upgrade",
            "a version that works",
            account_scenarios.with_agent,
            lambda world: up(account_scenarios.agent(world, NEW)),
            account_scenarios.is_up(NEW),
            account_scenarios.knows(account_scenarios.FACT),
        ),
        lambda point: point.is_edge,
        "agent.stop before",
        start_a_second,
        harm_of_writers,
        (supervise, "_locked", lambda lock: True),
    ),
]
