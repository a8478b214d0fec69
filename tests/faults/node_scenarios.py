"""Scenarios on the simulated node."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from faults.matrix import Scenario
from faults.node_world import NodeWorld
from paddock.core.converge import cycle, down, forget, plan, plan_down, plan_forget, up
from paddock.core.files import RootDisk
from paddock.core.observe import observe
from paddock.core.resolve import NOTHING_MORE, Asked, locate
from paddock.plan.agent import AgentSeen
from paddock.plan.namesakes import NamesakesSeen
from paddock.plan.step import AdoptTarget
from paddock.verbs import templates
from paddock.verbs.adopt import adopt as adopt_target
from paddock.verbs.adopt import describe
from places.node import CATTLE, MACHINES, PET, STATES, Killed, PaperAgent, address_of
from places.test_adopt import HOME, Adoption
from places.test_projects import without_project

OTHER = "desk/00000001"  # a run that nobody knows
Prepare = Callable[[NodeWorld], object]
Keys = dict[str, Any]
DOCKER: Keys = {"runtime": "docker", "container": {"install": True, "base": "debian:12"}}
CACHE: Keys = {"runtime": "docker", "container": {"install": True, "base": "debian:12", "data": "20G"}}
FROM_FILE: Keys = {"runtime": "docker", "container": {"install": True, "base": "debian:12", "archive": "image.tar"}}
ANT: Keys = {"name": "ant", "state": {"pet": PET}}


def nothing(_: NodeWorld) -> None:
    """Begin with an empty node."""


def is_up(**keys: Any) -> Callable[[NodeWorld], bool]:
    return lambda world: plan(world.agent(**keys)).empty


def with_agent(**keys: Any) -> Prepare:
    """Begin with an agent that is up and has learned something."""

    def prepare(world: NodeWorld) -> None:
        up(world.agent(**keys))
        world.learn(world.node.running[0])

    return prepare


def after(*prepares: Prepare) -> Prepare:
    def prepare(world: NodeWorld) -> None:
        for each in prepares:
            each(world)

    return prepare


def then(verb: Callable[[PaperAgent], object], **keys: Any) -> Prepare:
    return lambda world: verb(world.agent(**keys))


def killed(verb: Callable[[PaperAgent], object], requests: int, **keys: Any) -> Prepare:
    """Begin with what a run leaves that was killed after so many writing requests."""

    def prepare(world: NodeWorld) -> None:
        agent = world.agent(**keys)
        world.node.kill_after = len(world.node.writes) + requests
        try:
            verb(agent)
        except Killed:
            world.settle()
            return
        raise AssertionError("the run ended before it was killed")

    return prepare


def without_protection(world: NodeWorld) -> None:
    world.node.put(PET, protection=None)


def other_contents(world: NodeWorld) -> None:
    """The templates are of another version of the agent, and so is its machine."""
    for vmid in world.node.vmids:
        notes = world.node.config(vmid).get("description", "")
        world.node.put(vmid, description=re.sub(r"((?:template|made-from)=)\w{12}", r"\g<1>0123456789ab", notes))


def second_pet(world: NodeWorld) -> None:
    """Another run began to create a pet, and died."""
    volume = "local-lvm:8,mp=/var/lib/paddock/home_bee"
    mark = f"paddock: v=2 role=pet new={OTHER}"
    world.node.somebody(150, pool=STATES, hostname="bee-pet", description=mark, mp0=volume, protection=1)


def of_an_earlier_version(world: NodeWorld) -> None:
    without_project(world.node)
    state = Path(world.disks.state(CATTLE)[1])
    (state / ".paddock/identity").write_text("version=2\nagent=bee\nid=1\n")
    namesakes = NamesakesSeen(former="bee", units={"paddock-bee.main.service": "active"})
    world.node.machines.inside[address_of(CATTLE)] = AgentSeen(namesakes=namesakes)


def with_an_open_account(world: NodeWorld) -> None:
    """An earlier version made the account."""
    inside = world.node.machines.inside
    inside[address_of(CATTLE)] = replace(inside[address_of(CATTLE)], account_open=("it has not expired",))


def engine(**changes: Any) -> Prepare:
    """Change what the machine reports about its engine."""

    def prepare(world: NodeWorld) -> None:
        inside = world.node.machines.inside
        seen = inside[address_of(CATTLE)]
        left = changes.pop("left", None)
        seen = replace(seen, container=replace(seen.container, **changes))
        inside[address_of(CATTLE)] = replace(seen, left=left) if left else seen

    return prepare


def node_up(
    title: str, prepare: Prepare = nothing, /, *, verb: str = "up", asked: Asked = NOTHING_MORE, **keys: Any
) -> Scenario:
    """An `up` with these keys of the file."""
    run = lambda world: up(world.agent(**keys), asked)  # noqa: E731
    return Scenario(verb, title, NodeWorld, prepare, run, is_up(**keys), NodeWorld.states, NodeWorld.is_safe)


def is_down(**keys: Any) -> Callable[[NodeWorld], bool]:
    def check(world: NodeWorld) -> bool:
        located = locate(world.agent(**keys))
        return plan_down(located, observe(located), RootDisk(looked=True)).empty

    return check


def node_down(title: str, prepare: Prepare, /, **keys: Any) -> Scenario:
    run = lambda world: down(world.agent(**keys))  # noqa: E731
    return Scenario("down", title, NodeWorld, prepare, run, is_down(**keys), NodeWorld.states, NodeWorld.is_safe)


def node_cycle(title: str, prepare: Prepare, /, **keys: Any) -> Scenario:
    run = lambda world: cycle(world.agent(**keys))  # noqa: E731
    return Scenario("cycle", title, NodeWorld, prepare, run, is_up(**keys), NodeWorld.states, NodeWorld.is_safe)


def forgotten(agent: PaperAgent) -> str:
    seen, agreed = plan_forget(agent)
    return forget(agent, agreed, seen)


def node_forget(title: str, prepare: Prepare, /, **keys: Any) -> Scenario:
    run = lambda world: forgotten(world.agent(**keys))  # noqa: E731
    done = lambda world: plan_forget(world.agent(**keys))[1].empty  # noqa: E731
    return Scenario("forget", title, NodeWorld, prepare, run, done, NodeWorld.states)


def build(name: str, prepare: Prepare = nothing, *, rebuild: bool = False) -> Scenario:
    def run(world: NodeWorld) -> None:
        list(templates.build([world.agent(template="auto")], rebuild=rebuild))

    def once(world: NodeWorld) -> None:
        list(templates.build([world.agent(template="auto")], rebuild=False))

    done = lambda world: "exists" in str(list(templates.build([world.agent(template="auto")], rebuild=False)))  # noqa: E731
    # A rebuild that was killed late has built its template. The next one builds another, and `prune` removes the first.
    before = after(prepare, once) if rebuild else prepare
    safe = NodeWorld.is_safe
    return Scenario("template build", name, NodeWorld, before, run, done, NodeWorld.states, safe, varies=rebuild)


# Adopting


def pet_and_machine(world: NodeWorld) -> None:
    node = world.node
    node.somebody(999, pool=STATES, hostname="storage", mp0=f"local-lvm:10,mp={HOME},backup=1", protection=1)
    net = "name=eth0,bridge=vmbr0,hwaddr=BC:24:11:AA:BB:CC,ip=dhcp"
    node.somebody(105, pool=MACHINES, hostname="bee", net0=net, mp0=f"local-lvm:vm-999-disk-1,mp={HOME}")
    node.root("pct", "start", 105)
    world.learn(105)


def one_container(world: NodeWorld) -> None:
    net = "name=eth0,bridge=vmbr0,ip=dhcp"
    world.node.somebody(200, pool=MACHINES, hostname="bee", mp0=f"local-lvm:8,mp={HOME}", net0=net)
    world.node.root("pct", "start", 200)
    world.learn(200)


def machine_alone(world: NodeWorld) -> None:
    world.node.somebody(150, pool=MACHINES, hostname="bee", net0="name=eth0,bridge=vmbr0,ip=dhcp")
    world.node.root("pct", "start", 150)


class WrittenAdoption(Adoption):
    """An adoption whose description is written into the file before anything changes, as the verb does it."""

    file: Path

    def run(self, agent: PaperAgent | None = None) -> str:
        for part, said in describe(agent or self.agent(), self.target).said.items():
            self.keys[part] = {**self.keys.get(part, {}), **said} if isinstance(said, Mapping) else said
        self.file.write_text(json.dumps(self.keys))
        return adopt_target(self.agent(), self.target, looked=self.looked)


def adoption(world: NodeWorld, target: AdoptTarget, **keys: Any) -> Adoption:
    """Return the adoption, with what an earlier run has written into the file."""
    file = world.folder / "adopted.json"
    made = WrittenAdoption(world.node, target.machine, target.state, **keys)
    made.file = file
    if file.exists():
        made.keys |= json.loads(file.read_text())
    return made


def adopt(name: str, prepare: Prepare, target: AdoptTarget, **keys: Any) -> Scenario:
    def run(world: NodeWorld) -> None:
        adoption(world, target, **keys).run()

    def done(world: NodeWorld) -> bool:
        found = adoption(world, target, **keys)
        told = found.run()
        return "was already adopted" in told and not found.planned()

    def contents(world: NodeWorld) -> list[str | None]:
        # The path that names a state changes with its adoption, and what it has does not.
        return sorted(world.states().values(), key=str)

    return Scenario("adopt", name, NodeWorld, prepare, run, done, contents, NodeWorld.is_safe)


def killed_adoption(requests: int) -> Prepare:
    """Begin with what an adoption leaves that was killed after so many writing requests."""

    def prepare(world: NodeWorld) -> None:
        found = adoption(world, AdoptTarget(200, "mp0"))
        world.node.kill_after = len(world.node.writes) + requests
        try:
            found.run()
        except Killed:
            world.settle()

    return prepare


def adopted(world: NodeWorld) -> Adoption:
    """Adopt the container of `one_container` and return its file."""
    found = adoption(world, AdoptTarget(200, "mp0"))
    found.run()
    return found


def claims_adopted_state() -> Scenario:
    files: list[Adoption] = []

    def prepare(world: NodeWorld) -> None:
        one_container(world)
        files[:] = [adopted(world)]

    return Scenario(
        "up",
        "an adopted state",
        NodeWorld,
        prepare,
        lambda world: up(files[0].agent()),
        lambda world: plan(files[0].agent()).empty,
        lambda world: sorted(world.states().values(), key=str),
        NodeWorld.is_safe,
    )


def base_to_download(world: NodeWorld) -> PaperAgent:
    base = {"url": "https://example.org/debian-13-standard_13.1-2_amd64.tar.zst", "sha512": "0" * 128}
    return world.of_place({"base": base, "template": "none"}, kind="service", command=["/bin/true"], place="home")


def downloads_base() -> Scenario:
    run = lambda world: up(base_to_download(world))  # noqa: E731
    done = lambda world: plan(base_to_download(world)).empty  # noqa: E731
    return Scenario("up", "a base to download", NodeWorld, nothing, run, done, NodeWorld.states, NodeWorld.is_safe)


def with_archive(world: NodeWorld) -> None:
    with tarfile.open(world.folder / "image.tar", "w") as archive:
        for name in ("bin", "etc", "usr"):
            archive.addfile(tarfile.TarInfo(name))


# As root of this machine, directories of the node can be given to the agent; otherwise only a feature is added.
ROOT_WORK: Keys = {"machine": {"features": ["nesting", "keyctl"]}}
if os.geteuid() == 0:
    ROOT_WORK["mounts"] = [{"host": "/mnt/pve/hdd/bee", "path": "/data"}]

SCENARIOS = [
    node_up("a new agent"),
    node_up("a new agent from a template", template="auto"),
    node_up("a second agent on a pet", with_agent(), **ANT),
    node_up("packages", packages=["cowsay"]),
    node_up("a container with a data volume", **CACHE),
    node_up("other settings", with_agent(), machine={"cores": 3, "description": "new", "dns": ["9.9.9.9"]}),
    node_up("left out of backups", with_agent(), state={"backup": False}),
    node_up("an agent of an earlier version", after(with_agent(), of_an_earlier_version)),
    node_up("an open account", after(with_agent(), with_an_open_account)),
    node_up("a pet without protection", after(with_agent(), without_protection)),
    node_up("an unfinished pet", killed(up, 1)),
    node_up("a surplus pet", after(with_agent(), second_pet)),
    node_up("an unfinished machine", after(with_agent(), then(down), killed(up, 1))),
    node_up("an unfinished template", after(with_agent(), then(down), killed(up, 3, template="auto")), template="auto"),
    node_up("a detached machine", after(with_agent(), killed(down, 3))),
    node_up(
        "a stopped engine",
        after(with_agent(**DOCKER), engine(engine="down: it is stopped")),
        **(DOCKER | {"container": {"install": True, "base": "debian:12"}}),
    ),
    node_up(
        "another image",
        after(with_agent(**DOCKER), engine(left={"podman": ["vim"]})),
        runtime="docker",
        container={"install": True, "base": "debian:13"},
    ),
    node_up(
        "an image in a file",
        with_archive,
        runtime="docker",
        container={"install": True, "base": "debian:12", "archive": "image.tar"},
    ),
    node_up("work of root", with_agent(), root="root@node", patient=False, **ROOT_WORK),
    downloads_base(),
    node_up("a restart", with_agent(), asked=Asked(restart=True)),
    claims_adopted_state(),
    node_up("a larger state", with_agent(), verb="grow", state={"size": "9G"}),
    node_up("a larger disk", with_agent(), verb="grow", machine={"disk": "32G"}),
    node_up(
        "a larger data volume",
        with_agent(**CACHE),
        verb="grow",
        runtime="docker",
        container={"install": True, "base": "debian:12", "data": "30G"},
    ),
    node_down("a machine", with_agent()),
    node_down("a machine with a data volume", with_agent(**CACHE), **CACHE),
    node_down("an unfinished machine", after(with_agent(), then(down), killed(up, 1))),
    node_cycle("a machine", with_agent()),
    node_cycle("a machine from a template", with_agent(template="auto"), template="auto"),
    node_cycle("another template", after(with_agent(template="auto"), other_contents), template="auto"),
    build("a template"),
    build("a template again", rebuild=True),
    build(
        "after an interrupted build",
        killed(lambda agent: list(templates.build([agent], rebuild=False)), 3, template="auto"),
    ),
    adopt("a machine with a pet", pet_and_machine, AdoptTarget(105)),
    adopt("a container with its volume", one_container, AdoptTarget(200, "mp0")),
    adopt("a machine without a state", machine_alone, AdoptTarget(150), state={"size": "1G"}),
    adopt("a pet without protection", after(one_container, killed_adoption(7)), AdoptTarget(200, "mp0")),
    node_forget("an agent with a pet of its own", after(with_agent(), then(down))),
    node_forget("an agent on a pet of two", after(with_agent(), with_agent(**ANT), then(down, **ANT)), **ANT),
    node_forget("an agent with a data volume", after(with_agent(**CACHE), then(down, **CACHE)), **CACHE),
]
