"""Build the simulated cluster from a state directory, a fixture and a runtime."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pvebox.api.errors import SandboxError
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.fixture import Fixture, access_data, default_fixture, parse_fixture
from pvebox.cluster.ha import HaStore
from pvebox.cluster.recorded import load_into_lxc, load_into_memory
from pvebox.cluster.tasks import Tasks
from pvebox.guests.configstore import ConfigStore
from pvebox.guests.lifecycle import settle_stopped, start_on_boot
from pvebox.guests.status import Statistics
from pvebox.guests.storage import storage_entry
from pvebox.runtime.base import ensure_base
from pvebox.runtime.contract import Runtime
from pvebox.runtime.lxc import LxcRuntime
from pvebox.runtime.memory import MemoryRuntime
from pvebox.runtime.probe import unable_to_run
from pvebox.server import statedir

_TEMPLATE_SIZE = 75_636_531


def load_or_create_fixture(
    state: Path, given: Mapping[str, Any] | None, nodes: tuple[str, ...]
) -> tuple[Fixture, bool]:
    """Return the fixture saved in a state directory and False, or save a new fixture and return it and True."""
    statedir.prepare(state)
    file = state / "cluster.json"
    if file.exists():
        return parse_fixture(json.loads(file.read_text(encoding="utf-8"))), False
    data = dict(given) if given is not None else default_fixture(nodes)
    fixture = parse_fixture(data)
    # The parsed access data has hashes in place of the passwords of a given fixture.
    _write(file, {key: value for key, value in data.items() if key != "state"} | access_data(fixture.access))
    return fixture, True


def _write(file: Path, data: Mapping[str, Any]) -> None:
    temporary = file.with_suffix(".new")
    temporary.touch(mode=0o600)
    temporary.write_text(json.dumps(data), encoding="utf-8")
    temporary.replace(file)


def assemble(state: Path, fixture: Fixture, runtime: Runtime) -> Cluster:
    """Build a cluster on a state directory, with the containers and tasks that an earlier server left there."""
    cluster = Cluster(
        nodes=dict(fixture.nodes),
        storages=dict(fixture.storages),
        access=fixture.access,
        configs=ConfigStore(state / "pve", tuple(fixture.nodes)),
        tasks=Tasks(state / "tasks.jsonl"),
        runtime=runtime,
        ha=HaStore(state / "pve" / "ha"),
        release=fixture.release,
        name=fixture.cluster_name,
        index=fixture.index,
        jobs=dict(fixture.jobs),
        dns=dict(fixture.dns),
        vnets=dict(fixture.vnets),
    )

    writing = threading.Lock()
    file = state / "cluster.json"
    rest = json.loads(file.read_text(encoding="utf-8"))

    def remember() -> None:
        with writing:
            storages = {name: storage_entry(storage) for name, storage in cluster.storages.items()}
            settings = {"storages": storages, "jobs": cluster.jobs, "dns": cluster.dns}
            _write(file, {**rest, **access_data(cluster.access), **settings})

    cluster.access_changed = cluster.settings_changed = remember
    cluster.statistics = Statistics(cluster)
    runtime.on_stop(lambda vmid: settle_stopped(cluster, vmid))
    return cluster


def memory_cluster(state: Path, given: Mapping[str, Any] | None = None, nodes: tuple[str, ...] = ("pve",)) -> Cluster:
    """Build a cluster with simulated containers."""
    fixture, is_new = load_or_create_fixture(state, given, nodes)
    runtime = MemoryRuntime(state, fixture.bridges)
    cluster = assemble(state, fixture, runtime)
    if is_new:
        for volid in fixture.templates:
            storage, _, name = volid.partition(":")
            for node in cluster.nodes:
                runtime.add_file(node, storage, name, _TEMPLATE_SIZE)
        if fixture.state is not None:
            load_into_memory(cluster, runtime, fixture.state)
    for vmid in runtime.containers.running_vmids():
        node = cluster.configs.node_of(vmid) or ""
        spec = cluster.spec(vmid, node, cluster.configs.load(vmid, node))
        runtime.containers.mark_running(vmid, tuple(spec.mounts))
    cluster.statistics.gather()
    return cluster


def lxc_cluster(
    state: Path,
    given: Mapping[str, Any] | None,
    nodes: tuple[str, ...],
    subnet: str | None,
    mmp_wait: float | None = None,
) -> tuple[Cluster, str]:
    """Build a cluster with real containers; return the cluster and the address of its bridge."""
    reason = unable_to_run()
    if reason is not None:
        raise SandboxError(reason, hint="Use --runtime memory to run without real containers.")
    fixture, is_new = load_or_create_fixture(state, given, nodes)
    runtime = LxcRuntime(state, fixture.bridges, subnet, mmp_wait)
    cluster = assemble(state, fixture, runtime)
    boots = runtime.bridge.up() and not is_new
    gateway = runtime.bridge.gateway
    cluster.nodes = {
        name: replace(node, address=gateway, prefix=runtime.bridge.network.prefixlen)
        for name, node in cluster.nodes.items()
    }
    if is_new:
        for volid in fixture.templates:
            _place_template(runtime, volid, cluster)
        if fixture.state is not None:
            load_into_lxc(cluster, runtime, fixture.state)
    for vmid in cluster.configs.vmids():
        node = cluster.configs.node_of(vmid) or ""
        runtime.containers.adopt(cluster.spec(vmid, node, cluster.configs.load(vmid, node)))
    runtime.volumes.recover()
    if boots:
        start_on_boot(cluster)
    cluster.statistics.gather()
    return cluster, gateway


def _place_template(runtime: LxcRuntime, volid: str, cluster: Cluster) -> None:
    storage, _, name = volid.partition(":")
    archive = ensure_base(name.removeprefix("vztmpl/"))
    for node in cluster.nodes:
        target = runtime.names.file(node, storage, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_symlink():
            target.symlink_to(archive)
