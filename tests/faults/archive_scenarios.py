"""Scenarios on the simulated node with backups: archives of Proxmox, and drills of backups in a folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from faults.matrix import Scenario
from faults.node_scenarios import Prepare, after, forgotten
from faults.node_world import NodeWorld
from paddock.backups.verified import check
from paddock.core.archives import archives_of
from paddock.core.converge import down, plan, plan_down, plan_forget, up
from paddock.core.files import RootDisk
from paddock.core.observe import observe
from paddock.core.resolve import locate
from paddock.kinds.workload import Verdict
from paddock.verbs import backup, drill, restore
from places.node import CATTLE, DAILY, Killed, PaperAgent

TO_STORAGE = {"to": {"proxmox": {"storage": "local"}}}
FACT = "The gate code is 4711, and nobody else knows it.\n"


def bee(world: NodeWorld, template: str = "auto") -> PaperAgent:
    """The agent with the daily token, whose backups Proxmox makes."""
    return world.agent(token=DAILY, template=template, backup=TO_STORAGE)


def setup_of(template: str) -> Callable[[NodeWorld], None]:
    """Begin with an agent that is up and that the daily token may back up."""

    def prepare(world: NodeWorld) -> None:
        up(world.agent(template=template))
        world.learn(CATTLE)
        for line in bee(world).examine()[1]:
            if line.startswith("pveum"):
                assert world.node.shell(line).code == 0

    return prepare


with_agent = setup_of("auto")


def backed_up(world: NodeWorld) -> None:
    with_agent(world)
    backup.make(bee(world))


def read(agent: PaperAgent) -> None:
    archives = archives_of(agent)
    assert archives
    with archives.read(archives.backups()[-1]) as stream:
        check(stream)


def killed_reading(words: str) -> Callable[[NodeWorld], None]:
    """Begin with what a run leaves that read a backup and was killed before such a request."""

    def prepare(world: NodeWorld) -> None:
        agent = bee(world)
        world.node.before("*", words, lambda: setattr(world.node, "_dead", True))
        try:
            read(agent)
        except Killed:
            world.settle()
            world.node._dead = False
            return
        raise AssertionError("it was not killed")

    return prepare


def restored(world: NodeWorld, template: str = "auto") -> None:
    agent = bee(world, template)
    restore.restore(agent, restore.choose(agent, None))


def restored_at_last(world: NodeWorld) -> None:
    """Run `up`, which ends an interrupted restore, and restore again."""
    up(bee(world))
    restored(world)


def is_up(world: NodeWorld) -> bool:
    return plan(bee(world)).empty


def archive(verb: str, name: str, prepare: Any, run: Any, done: Any = is_up, **more: Any) -> Scenario:
    safe = NodeWorld.is_safe if verb != "forget" else lambda world: True
    return Scenario(verb, name, NodeWorld, prepare, run, done, memories, safe, **more)


def memories(world: NodeWorld) -> list[str]:
    return sorted(world.disks.memories())


def without_template(world: NodeWorld) -> None:
    """Begin with a backup of an agent whose template is gone."""
    backed_up(world)
    down(world.agent(template="auto"))
    [template] = [vmid for vmid in world.node.vmids if world.node.config(vmid).get("template")]
    world.node.root("pct", "destroy", template)


def backed(world: NodeWorld) -> None:
    backup.make(bee(world))


def backed_at_last(world: NodeWorld) -> None:
    """Back up again. The killed run had stopped the agent, and `up` starts it."""
    backed(world)
    up(bee(world))


def killed_at(words: str) -> Prepare:
    return after(backed_up, killed_reading(words))


def taken_down(world: NodeWorld) -> None:
    down(bee(world))


def is_down(world: NodeWorld) -> bool:
    located = locate(bee(world))
    return plan_down(located, observe(located), RootDisk(looked=True)).empty


def down_and_killed(world: NodeWorld) -> None:
    """Begin with an agent that is down, and a copy that a killed run restored."""
    backed_up(world)
    down(world.agent(template="auto"))
    killed_reading("*/clone")(world)


def forget_it(world: NodeWorld) -> None:
    forgotten(world.agent(template="auto"))


def is_forgotten(world: NodeWorld) -> bool:
    return plan_forget(world.agent(template="auto"))[1].empty


# Drills


def with_backup(world: NodeWorld) -> None:
    """Begin with an agent that has a backup in a folder."""
    up(world.hermes())
    world.learn(CATTLE, ".hermes/memories/MEMORY.md", FACT)
    with closing(sqlite3.connect(Path(world.disks.state(CATTLE)[1]) / "home/.hermes/state.db")) as database:
        database.executescript("create table messages (text); insert into messages values ('hello');")
    backup.make(world.hermes())


def drilled(world: NodeWorld) -> None:
    trial = drill.Trial.of(world.hermes(), None, real_model=False)
    # The copy runs on paper. It answers with what the memory in its state says.
    memory = Path(world.disks.state(CATTLE)[1]) / "home/.hermes/memories/MEMORY.md"
    setattr(drill, "ask", lambda *_: Verdict(True, memory.read_text()))  # noqa: B010 - in a process that ends soon
    assert "recalled a fact" in drill.drill(trial)


# Machines on paper do not report the packages and the code of their template, so `up` would install them again.
ON_PAPER = {"packages.install", "code.install", "agent.answer"}


def has_drill(world: NodeWorld) -> bool:
    agent = world.hermes()
    last = backup.destination_of(agent).last_drill()
    return last is not None and last.failure is None and {step.id for step in plan(agent).steps} <= ON_PAPER


SCENARIOS = [
    archive("backup", "by Proxmox", with_agent, backed, again=backed_at_last),
    archive("restore", "from an archive", backed_up, restored, again=restored_at_last),
    archive("restore", "after a killed restore", killed_at("*/status/start"), restored, again=restored_at_last),
    archive("restore", "without a template", without_template, restored, again=restored_at_last),
    archive("up", "after a killed reading", killed_at("*/status/shutdown"), lambda world: up(bee(world))),
    archive("down", "after a killed reading", killed_at("*/status/shutdown"), taken_down, is_down),
    archive("forget", "after a killed reading", down_and_killed, forget_it, is_forgotten),
    archive("drill", "a backup in a folder", with_backup, drilled, has_drill),
]
