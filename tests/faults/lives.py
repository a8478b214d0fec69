"""Commands that send every kind of request that Paddock knows, each with the world that it begins in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from faults.world import World
from paddock.places.proxmox.machine.reach import fingerprint
from places.node import DAILY, MACHINES, PET, ROOT, STATES

_BACKUP: Final = {"to": {"proxmox": {"storage": "local"}}}
_HOME: Final = "/home/bee"
_BY_HAND: Final = 105  # a container that a person made
_NET: Final = "name=eth0,bridge=vmbr0,ip=dhcp"


@dataclass(frozen=True)
class Life:
    """A command, the world before it, and how a person sees afterwards that nothing is left to do."""

    words: tuple[str, ...]
    begins: str  # the name of a world
    file: dict[str, Any] | None = None  # what the file says by then
    finish: str = ""  # what completes the command: adopting does not configure, and a copy may be left to `up`
    proof: tuple[str, ...] = ("plan", "--exit-code")


@dataclass(frozen=True)
class Beginning:
    """A world to begin in, made from another one or from an empty node."""

    make: Callable[[World], object]
    of: str = ""


def write(world: World, name: str = "bee", *, place: dict[str, Any] | None = None, **keys: Any) -> None:
    """Write a file with one agent into the folder of the world."""
    world.node.agent(name, **keys)
    file = world.folder / "paddock.yaml"
    said = json.loads(file.read_text())
    said["places"]["home"]["proxmox"] |= place or {}
    file.write_text(json.dumps(said))


def _done(world: World, command: str) -> None:
    said = world.run(*command.split())
    assert said.code == 0, (command, said.err)


def _ran(*commands: str, **keys: Any) -> Callable[[World], None]:
    def make(world: World) -> None:
        if keys:
            write(world, **keys)
        for command in commands:
            _done(world, command)

    return make


def _may_back_up(world: World) -> None:
    """An agent whose daily token may back up, with a state to send."""
    home = world.folder.parent / "state/home"
    home.mkdir(parents=True, exist_ok=True)
    (home / "learned.md").write_text("the owner likes tea\n")
    world.node.machines.home = home
    _done(world, "up")
    write(world, template="auto", token=DAILY, backup=_BACKUP)
    for line in world.run("doctor").out.splitlines():
        if line.strip().startswith("pveum"):
            assert world.node.shell(line.strip()).code == 0, line


def _another_backup(world: World) -> None:
    time.sleep(1.1)  # the name of an archive has its second
    _done(world, "backup bee")


def _templates(world: World) -> None:
    """Four templates of one label. The two oldest are unused."""
    for package in ("cowsay", "figlet", "sl"):
        write(world, template="auto", packages=[package])
        _done(world, "template build")


def _pet_and_machine(world: World) -> None:
    """A stopped container that owns a volume, and a running one that mounts it."""
    state = f"local-lvm:10,mp={_HOME},backup=1"
    world.node.somebody(999, pool=STATES, hostname="storage", mp0=state, protection=1)
    _started(world, f"local-lvm:vm-999-disk-1,mp={_HOME}")


def _started(world: World, volume: str) -> None:
    node = world.node
    node.somebody(_BY_HAND, pool=MACHINES, hostname="bee", onboot=1, net0=_NET, mp0=volume)
    node.root("pct", "start", _BY_HAND)
    write(world, machine={"host_key": fingerprint(node.machines.host_keys[_BY_HAND])})


BEGINNINGS: Final = {
    "nothing": Beginning(write),
    "up": Beginning(_ran("up"), of="nothing"),
    "down": Beginning(_ran("down"), of="up"),
    "two agents, one down": Beginning(_ran("up", "down", name="ant", state={"pet": PET}), of="up"),
    "template": Beginning(_ran("template build", template="auto"), of="nothing"),
    "four templates": Beginning(_templates, of="template"),
    "may back up": Beginning(_may_back_up, of="template"),
    "backup": Beginning(_ran("backup bee"), of="may back up"),
    "two backups": Beginning(_another_backup, of="backup"),
    "pet and machine by hand": Beginning(_pet_and_machine),
    "one container by hand": Beginning(partial(_started, volume=f"local-lvm:8,mp={_HOME}")),
}

_FIXED: Final = {"machine": {"net": {"address": "10.0.0.101/24", "gateway": "10.0.0.1"}}}
_URL: Final = {"base": {"url": "https://example.org/debian-13.tar.zst", "sha256": "0" * 64}}
_POOLS: Final = {"pools": {"machines": MACHINES, "state": STATES}}
_KEEP_ONE: Final = {"template": "auto", "token": DAILY, "backup": {**_BACKUP, "keep": {"last": 1}}}

LIVES: Final = {
    "first deploy": Life(("up",), "nothing"),
    "first deploy, pools": Life(("up",), "nothing", {"place": _POOLS}),
    "first deploy, fixed address": Life(("up",), "nothing", _FIXED),
    "first deploy, base downloaded": Life(("up",), "nothing", {"place": _URL, "token": ROOT}),
    "first deploy, template": Life(("up",), "template"),
    "root's features": Life(("up",), "nothing", {"machine": {"features": ["nesting", "keyctl"]}, "root": "root@node"}),
    "second agent of a pet": Life(("up",), "up", {"name": "ant", "state": {"pet": PET}}),
    "no-op": Life(("up",), "up"),
    "change": Life(("up",), "up", {"machine": {"dns": ["9.9.9.9"], "description": "bees"}}),
    "grow": Life(("up",), "up", {"state": {"size": "9G"}, "machine": {"disk": "11G"}}),
    "cycle": Life(("cycle",), "up"),
    "down": Life(("down",), "up", proof=("down",)),
    "template build": Life(("template", "build"), "nothing", {"template": "auto"}, proof=("template", "build")),
    "template prune": Life(("template", "prune", "--yes"), "four templates", proof=("template", "prune", "--yes")),
    "adopt, pet and machine": Life(("adopt", "bee", str(_BY_HAND), "--yes"), "pet and machine by hand", finish="up"),
    "adopt, one container": Life(
        ("adopt", "bee", str(_BY_HAND), "--state", "mp0", "--yes"), "one container by hand", finish="up"
    ),
    "rename": Life(("rename", "bee", "wasp", "--yes"), "up", finish="up"),
    "forget": Life(("forget", "bee", "--name", "bee"), "down", proof=()),
    "forget one of two": Life(("forget", "ant", "--name", "ant"), "two agents, one down", proof=()),
    "backup": Life(("backup", "bee"), "may back up"),
    "backup check": Life(("backup", "check", "bee"), "backup", finish="up"),
    "backup prune": Life(("backup", "prune", "bee"), "two backups", _KEEP_ONE, proof=("backup", "prune", "bee")),
    "restore": Life(("restore", "bee", "--yes"), "backup", finish="up"),
    "doctor": Life(("doctor",), "up", {"place": {"fingerprint": ":".join(["AB"] * 32)}}, proof=()),
    "status": Life(("status",), "up"),
}
