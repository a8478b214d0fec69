"""Replay the recordings of a cluster and compare its nodes, its shared storage and its HA resources."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pvebox.access.lines import access_lines
from pvebox.cluster.cluster import Cluster
from pvebox.guests.storage import StorageType
from sandbox.conformance.recordings import Recordings, load, masked_text, renumbered
from sandbox.conformance.replay import Replay, access_entries, answer_differences, task_differences

Json = Any

# `shared` is a storage here, and a property and a directory elsewhere.
_SHARED_STORAGE = (
    r"(?<=storage/)shared|(?<=north/)shared|(?<=storage-)shared|(?<=storage ')shared|(?<=\"storage\": \")shared"
    r"|(?<=\")shared(?=\": \{)|(?<![\w/])shared(?=:\w)|(?<=:)shared(?=\")"
)
_OTHER_NAMES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"pve([123])", r"rack-\1-north"),
    (r"local-lvm", "fast-thin"),
    (_SHARED_STORAGE, "common"),
    (r"(?:(?<![\w.])|(?<=CT))(?<!\"status\": )5[6-9]\d(?!\w)", lambda found: str(int(found[0]) + 4000)),
)


@functools.cache
def load_cluster(*, other_names: bool = False) -> Recordings:
    """Return the recordings of a cluster, with other VMIDs, nodes and storages if asked."""
    recordings = load()
    cases = recordings.clustered()
    used = {case[key] for case in cases for key in ("before", "after") if case.get(key)}
    told = json.dumps([cases, {name: recordings.states[name] for name in used}, recordings.fixture(cases[0])])
    for pattern, name in _OTHER_NAMES if other_names else ():
        told = re.sub(pattern, name, told)
    renamed, states, fixture = json.loads(told)
    return replace(recordings, cases=renamed, states=states, _cluster_fixture=fixture)


def cluster_differences(case: Mapping[str, Json], recordings: Recordings, directory: Path) -> list[str]:
    """Run a case in a new memory sandbox of several nodes and return all differences from the recording."""
    state = recordings.states[case["before"]]
    fixture = recordings.fixture(case)
    nodes = {name: node for name, node in fixture["nodes"].items() if name in state["online"]}
    # The sandbox's first node answers, and the recordings were all asked of the first node.
    assert next(iter(nodes)) == case["via"]
    replay = Replay.of(directory, {**fixture, "nodes": nodes}, state)
    status, reason, body = replay.ask(case["request"])
    found = answer_differences(case, status, reason, _without_host_memory(body))
    # If the answer is not a UPID, the state was recorded at once, while a task may still have been running.
    if isinstance(body, dict) and str(body.get("data")).startswith("UPID:"):
        replay.settle()
        if case.get("task"):
            found += task_differences(_with_replication(case), replay.cluster, body["data"])
    if case.get("after"):
        found += _state_differences(case, recordings.states[case["after"]], replay.cluster)
    replay.settle()
    return found


def _without_host_memory(body: Json) -> Json:
    """Return an answer without `memhost`. The recorded nodes sent their statistics in the format of Proxmox VE 8."""
    match body:
        case dict():
            return {key: _without_host_memory(value) for key, value in body.items() if key != "memhost"}
        case list():
            return [_without_host_memory(entry) for entry in body]
    return body


def _with_replication(case: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return a case without the error of a program that the recorded nodes lacked. It fails after the migration."""
    if "pvesr was missing" not in case.get("fidelity", ""):
        return case
    return {**case, "task": {**case["task"], "exitstatus": "OK"}}


def _state_differences(case: Mapping[str, Json], wanted: Mapping[str, Json], cluster: Cluster) -> list[str]:
    new = (case["request"].get("params") or {}).get("newid")
    clone = None if new is None else str(new)
    found = []
    for node in cluster.nodes:
        theirs = {"config": {}, "volumes": {}, "running": [], **wanted["nodes"].get(node, {})}
        ours = _node_state(cluster, node)
        configs, volumes = renumbered(ours, clone)
        wanted_configs, wanted_volumes = renumbered(theirs, clone)
        found += _entry_differences(f"configs of {node}", configs, wanted_configs)
        found += _entry_differences(f"volumes of {node}", volumes, wanted_volumes)
        if set(ours["running"]) != set(theirs["running"]):
            found.append(f"running on {node}: {ours['running']} instead of {theirs['running']}")
    for what, mine, recorded in (
        ("shared files", set(_shared_files(cluster)), {masked_text(path) for path in wanted.get("shared", ())}),
        ("access", access_entries(access_lines(cluster.access)), access_entries(wanted["access"])),
        ("HA", cluster.ha.lines(), wanted.get("ha", [])),
    ):
        if mine != recorded:
            found.append(f"{what}: {mine} instead of {recorded}")
    return found


def _entry_differences(what: str, ours: Mapping[str, Json], theirs: Mapping[str, Json]) -> list[str]:
    extra, missing = ours.items() - theirs.items(), theirs.items() - ours.items()
    return [f"{what}: {sorted(extra)} instead of {sorted(missing)}"] if ours != theirs else []


def _node_state(cluster: Cluster, node: str) -> dict[str, Json]:
    thin = next(s.id for s in cluster.storages.values() if s.type is StorageType.LVM_THIN)
    vmids = cluster.configs.vmids(node)
    return {
        "config": {str(vmid): cluster.configs.text(vmid, node) for vmid in vmids},
        "volumes": {volume.ref.name: volume.size for volume in cluster.runtime.volumes.on(node, thin)},
        "running": [str(vmid) for vmid in vmids if cluster.runtime.containers.running(vmid)],
    }


def _shared_files(cluster: Cluster) -> list[str]:
    shared = next(storage for storage in cluster.storages.values() if storage.shared)
    images = [f"images/{volume.ref.name}" for volume in cluster.runtime.volumes.on(cluster.local_node, shared.id)]
    files = cluster.runtime.files(cluster.local_node, shared.id)
    dumps = [f"dump/{name.removeprefix('backup/')}" for name in files if name.startswith("backup/")]
    return [masked_text(f"./{path}") for path in images + dumps]
