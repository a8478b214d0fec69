"""Putting a world together: a state directory, a fixture and a runtime."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .base import ensure_base
from .disks import every_volume
from .errors import SandboxError
from .fixture import Fixture, access_data, apply_access_lines, default_fixture, parse_fixture
from .guests import Guests
from .lifecycle import settle_stopped
from .lxc import LxcRuntime
from .memory import MemoryRuntime
from .probe import unable_to_run
from .runtime import Runtime, Volume, VolumeRef
from .tasks import Tasks
from .world import World

_TEMPLATE_SIZE = 75_636_531


def remembered_fixture(
    state: Path, given: Mapping[str, Any] | None, nodes: tuple[str, ...]
) -> tuple[Fixture, bool]:
    """The fixture of a state directory, and whether it is new there."""
    file = state / "cluster.json"
    if file.exists():
        return parse_fixture(json.loads(file.read_text(encoding="utf-8"))), False
    data = dict(given) if given is not None else default_fixture(nodes)
    state.mkdir(parents=True, exist_ok=True)
    _write(file, {key: value for key, value in data.items() if key != "state"})
    return parse_fixture(data), True


def _write(file: Path, data: Mapping[str, Any]) -> None:
    temporary = file.with_suffix(".new")
    temporary.touch(mode=0o600)
    temporary.write_text(json.dumps(data, indent=1), encoding="utf-8")
    temporary.replace(file)


def assemble(state: Path, fixture: Fixture, runtime: Runtime) -> World:
    """A world on a state directory, with everything an earlier server left there."""
    world = World(
        nodes=dict(fixture.nodes),
        storages=dict(fixture.storages),
        access=fixture.access,
        guests=Guests(state / "pve", tuple(fixture.nodes)),
        tasks=Tasks(state / "tasks.jsonl"),
        runtime=runtime,
        release=fixture.release,
    )

    def remember_access() -> None:
        file = state / "cluster.json"
        data = json.loads(file.read_text(encoding="utf-8"))
        _write(file, {**data, **access_data(world.access)})

    world.access_changed = remember_access
    runtime.on_stop(lambda vmid: settle_stopped(world, vmid))
    return world


def memory_world(
    state: Path, given: Mapping[str, Any] | None = None, nodes: tuple[str, ...] = ("pve",)
) -> World:
    """A world without machines."""
    fixture, is_new = remembered_fixture(state, given, nodes)
    bridges = {name: node.bridges for name, node in fixture.nodes.items()}
    runtime = MemoryRuntime(state, bridges)
    world = assemble(state, fixture, runtime)
    if is_new:
        for volid in fixture.templates:
            storage, _, name = volid.partition(":")
            for node in world.nodes:
                runtime.add_file(node, storage, name, _TEMPLATE_SIZE)
        if fixture.state is not None:
            load_state(world, runtime, fixture.state)
    return world


def lxc_world(
    state: Path, given: Mapping[str, Any] | None, nodes: tuple[str, ...], subnet: str | None
) -> tuple[World, str]:
    """A world with real containers, and the address of its bridge."""
    reason = unable_to_run()
    if reason is not None:
        raise SandboxError(reason, hint="Without real containers there is --runtime memory.")
    fixture, is_new = remembered_fixture(state, given, nodes)
    bridges = {name: node.bridges for name, node in fixture.nodes.items()}
    runtime = LxcRuntime(state, bridges, subnet)
    world = assemble(state, fixture, runtime)
    gateway = runtime.bridge.gateway
    world.nodes = {
        name: replace(node, address=gateway, prefix=runtime.bridge.network.prefixlen)
        for name, node in world.nodes.items()
    }
    if is_new:
        for volid in fixture.templates:
            _place_template(runtime, volid, world)
    for vmid in world.guests.vmids():
        node = world.guests.node_of(vmid) or ""
        runtime.containers.adopt(world.spec(vmid, node, world.guests.load(vmid, node)))
    runtime.volumes.unmount_unheld()
    return world, gateway


def _place_template(runtime: LxcRuntime, volid: str, world: World) -> None:
    storage, _, name = volid.partition(":")
    archive = ensure_base(name.removeprefix("vztmpl/"))
    for node in world.nodes:
        target = runtime.names.files(node, storage) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(archive)


def load_state(world: World, runtime: MemoryRuntime, state: Mapping[str, Any]) -> None:
    """Fill a world with one recorded state: configs, volumes, what runs, pools and ACLs."""
    node = next(iter(world.nodes))
    for vmid, text in state.get("config", {}).items():
        world.guests.put(int(vmid), node, text)
    _load_volumes(world, runtime, node, state)
    if "access" in state:
        apply_access_lines(world.access, list(state["access"]))
        world.access_changed()
    for vmid in state.get("running", ()):
        config = world.guests.load(int(vmid), node)
        runtime.containers.mark_running(int(vmid), tuple(world.spec(int(vmid), node, config).mounts))
    runtime.save()


def _load_volumes(world: World, runtime: MemoryRuntime, node: str, state: Mapping[str, Any]) -> None:
    thin = next((s.id for s in world.storages.values() if s.type == "lvmthin"), "local-lvm")
    mounted = set()
    for vmid in world.guests.vmids():
        mounted.update(every_volume(world.guests.load(vmid, node).options))
    for name, size in state.get("volumes", {}).items():
        # Volumes that Proxmox makes for containers are numbered, and have a filesystem; a name of
        # somebody's choice comes from the storage API, which makes none.
        numbered = re.search(r"(^|_)(vm|base)-\d+-disk-\d+", name) is not None
        formatted = numbered or f"{thin}:{name}" in mounted
        runtime.volumes.put(Volume(VolumeRef(node, thin, name), int(size), 0, formatted))
    for path in state.get("dir", ()):
        for storage in world.storages.values():
            image = re.match(rf"{re.escape(storage.path)}/images/(\d+/[^/]+)$", path)
            if storage.type == "dir" and "images" in storage.content and image:
                runtime.volumes.put(Volume(VolumeRef(node, storage.id, image[1]), 1 << 30, 0))
