"""A step changes no container that has got the vmid of the planned one in the meantime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.core.converge import cycle, down, up
from paddock.plan.step import AdoptTarget
from paddock.verbs.adopt import adopt, describe
from places.node import CATTLE, PET, Node, PaperAgent


class Stranger:
    """Another user of the node, who destroys a container and creates a new one with its vmid."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.vmid = 0
        self.starts = 0

    def takes(self, vmid: int = CATTLE, *, running: bool = True) -> Callable[[], None]:
        """Return a call that replaces the container with that vmid."""

        def happen() -> None:
            node = self.node
            if vmid in node.running:
                node.root("pct", "stop", vmid)
            if vmid in node.vmids:
                node.put(vmid, mp0=None, protection=None)
                node.root("pct", "destroy", vmid)
            node.somebody(vmid, pool="paddock", hostname="theirs", cores=7, net0="name=eth0,bridge=vmbr0,ip=dhcp")
            self.vmid = vmid
            if running:
                node.root("pct", "start", vmid)
            begin = node.machines.start

            def start(spec: Any) -> None:
                self.starts += spec.vmid == vmid
                begin(spec)

            node.machines.start = start  # type: ignore[method-assign]

        return happen

    def is_unharmed(self, *, running: bool = True) -> None:
        assert self.vmid, "the container was not replaced, so the test showed nothing"
        theirs, config = f"another user's container {self.vmid}", self.node.config(self.vmid)
        assert (self.vmid in self.node.running) == running, f"{theirs} was {'stopped' if running else 'started'}"
        assert self.starts == 0, f"{theirs} was restarted"
        volumes = [key for key in config if key.startswith(("mp", "unused"))]
        assert not volumes, f"{theirs} was given a volume of the agent: {volumes}"
        assert "paddock" not in config.get("description", ""), f"{theirs} was marked as Paddock's"
        assert (config["hostname"], config["cores"]) == ("theirs", 7), f"{theirs} was changed"
        assert "nameserver" not in config, f"{theirs} was changed"
        assert "protection" not in config, f"{theirs} was changed"
        assert "template" not in config, f"{theirs} was turned into a template"
        assert "size=1G" in config["rootfs"], f"the disk of {theirs} was grown"


@pytest.fixture
def stranger(node: Node) -> Stranger:
    return Stranger(node)


def run(verb: Callable[[PaperAgent], str], agent: PaperAgent) -> None:
    """Run a verb, which may succeed or end with an error."""
    with suppress(PaddockError):
        verb(agent)


@pytest.mark.parametrize("words", ["shut machine 101 down", "detach the state", "destroy machine 101"])
def test_down_does_not_change_a_strangers_container(node: Node, stranger: Stranger, words: str) -> None:
    up(node.agent())
    agent = node.agent()
    agent.told.when(words, stranger.takes())
    run(down, agent)
    stranger.is_unharmed()


def test_cycle_does_not_change_a_strangers_container_and_uses_another_vmid(node: Node, stranger: Stranger) -> None:
    up(node.agent())
    agent = node.agent()
    agent.told.when("shut machine 101 down", stranger.takes())
    cycle(agent)
    stranger.is_unharmed()
    assert node.running == [CATTLE, 102]


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("change machine 101", {"machine": {"cores": 3}}),
        ("restart machine 101", {"machine": {"dns": ["9.9.9.9"]}}),
        ("grow the root disk", {"machine": {"disk": "9G"}}),
    ],
)
def test_up_does_not_change_a_strangers_container(
    node: Node, stranger: Stranger, words: str, keys: dict[str, Any]
) -> None:
    up(node.agent())
    agent = node.agent(**keys)
    agent.told.when(words, stranger.takes())
    run(up, agent)
    stranger.is_unharmed()


def test_up_does_not_start_a_strangers_container(node: Node, stranger: Stranger) -> None:
    agent = node.agent()
    agent.told.when("start machine 101", stranger.takes(running=False))
    run(up, agent)
    stranger.is_unharmed(running=False)


def test_up_does_not_attach_a_detached_state_to_a_strangers_container(node: Node, stranger: Stranger) -> None:
    up(node.agent())
    node.root("pct", "stop", CATTLE)
    node.put(CATTLE, mp0=None)
    agent = node.agent()
    agent.told.when("attach the state", stranger.takes(running=False))
    run(up, agent)
    stranger.is_unharmed(running=False)


def test_up_does_not_attach_the_state_of_a_new_clone_to_a_strangers_container(node: Node, stranger: Stranger) -> None:
    """The clone is replaced after it was created, and before the state is attached to it."""
    up(node.agent(template="auto"))
    down(node.agent(template="auto"))
    node.before("GET", f"/nodes/pve/lxc/{CATTLE}/config", stranger.takes(running=False))
    run(up, node.agent(template="auto"))
    stranger.is_unharmed(running=False)


def test_a_container_with_the_vmid_of_a_destroyed_pet_gets_no_volume(node: Node, stranger: Stranger) -> None:
    up(node.agent())
    down(node.agent())
    agent = node.agent("ant", state={"pet": PET})
    agent.told.when("create a state volume of", stranger.takes(PET, running=False))
    run(up, agent)
    stranger.is_unharmed(running=False)


def test_a_container_with_the_vmid_of_a_destroyed_builder_does_not_become_a_template(
    node: Node, stranger: Stranger
) -> None:
    agent = node.agent(template="auto")
    agent.told.when("convert builder 102 to template", stranger.takes(102))
    run(up, agent)
    stranger.is_unharmed()


def test_adopt_does_not_stop_a_strangers_container(node: Node, stranger: Stranger) -> None:
    """A container that is to be adopted has no mark yet by which it could be recognised."""
    node.somebody(
        200, pool="paddock", hostname="bee", mp0="local-lvm:1,mp=/home/bee", net0="name=eth0,bridge=vmbr0,ip=dhcp"
    )
    node.root("pct", "start", 200)
    target = AdoptTarget(200, "mp0")
    said: Mapping[str, Any] = describe(node.agent(), target).said
    agent = node.agent(**said)
    agent.told.when("shut machine 200 down", stranger.takes(200))
    run(lambda each: adopt(each, target, looked=True), agent)
    stranger.is_unharmed()


def test_the_commands_for_root_do_not_change_a_strangers_container(node: Node, stranger: Stranger) -> None:
    """The printed commands for the node's shell contain a vmid."""
    up(node.agent())
    agent = node.agent(machine={"features": ["nesting", "keyctl"]}, patient=False)
    agent.told.when("wait until root has added keyctl to machine 101", stranger.takes())
    ends = []
    try:
        up(agent)
    except PaddockError as end:
        ends.append(end.message)
    assert "pct set 101" not in "".join(ends), "root is asked to change another user's container"
    stranger.is_unharmed()


def test_root_over_ssh_does_not_change_a_strangers_container(
    node: Node, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    class Shell:
        name = "root@node"

        def run(self, argv: list[str], **_: Any) -> Result:
            ran.append(argv[-1])
            return Result(argv=tuple(argv), code=0, out="", err="", seconds=0)

    monkeypatch.setattr("paddock.places.proxmox.place._root_guest", lambda destination: Shell())
    up(node.agent())
    agent = node.agent(machine={"features": ["nesting", "keyctl"]}, root="root@node")
    agent.told.when("add keyctl to machine 101", stranger.takes())
    run(up, agent)
    assert not [line for line in ran if "101" in line], f"root ran this on another user's container: {ran}"
    stranger.is_unharmed()
