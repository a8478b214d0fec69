"""Recordings of calls on whole containers, sent to a sandbox with real containers."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from levels import slow_proof
from pvebox import unable_to_run
from pvebox.access.lines import apply_access_lines
from pvebox.cluster.assembly import lxc_cluster
from pvebox.guests.disks import every_volume
from pvebox.guests.mountpoint import MountType, mount_points
from pvebox.runtime.contract import VolumeRef
from pvebox.runtime.lxc import LxcRuntime
from pvebox.server.clean import clean
from sandbox.conformance.recordings import load
from sandbox.conformance.replay import Replay, case_differences

Json = Any
GOLDEN = VolumeRef("pve", "golden", "base-9000-disk-0")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(unable_to_run() is not None, reason=str(unable_to_run())),
]


def _is_lifecycle(case: Mapping[str, Json]) -> bool:
    asked = f"{case['request']['method']} {case['request']['path']}"
    return bool(
        re.search(r"POST .*/lxc$|DELETE .*/lxc/\d+$|POST .*/status/(start|stop|shutdown|reboot)$", asked)
        or re.search(r"POST .*/(clone|template)$", asked)
    )


CASES = [
    case
    for case in load().replayable()
    if _is_lifecycle(case) and not case["id"].startswith("L") and "holds the config lock" not in case["case"]
]


def _parameters() -> Iterator[Any]:
    """All cases; every eighth of each request and status by default, the others as slow proofs.

    tests/sandbox/conformance/test_recordings.py replays all of them without containers.
    """
    seen: Counter[tuple[str, str, int]] = Counter()
    for case in CASES:
        request = case["request"]
        kind = (request["method"], re.sub(r"\d+", "N", request["path"]), case["response"]["status"])
        yield pytest.param(case, id=case["id"], marks=[slow_proof] if seen[kind] % 8 else [])
        seen[kind] += 1


class Node:
    """A sandbox with real containers that loads one recorded state after another."""

    def __init__(self, directory: Path) -> None:
        self.states = load().states
        fixture = load().all_accounts()
        self.cluster, _ = lxc_cluster(directory, fixture, ("pve",), None, mmp_wait=0)
        assert isinstance(self.cluster.runtime, LxcRuntime)
        self.runtime: LxcRuntime = self.cluster.runtime
        self.replay = Replay(self.cluster)
        self._make_golden()

    def _make_golden(self) -> None:
        """Unpack the template once. The containers of all states are linked clones of it."""
        token = "root@pam!full"
        params = {"vmid": 9000, "ostemplate": "local:vztmpl/debian-12-standard_12.12-1_amd64.tar.zst"}
        request = {"method": "POST", "path": "/api2/json/nodes/pve/lxc", "token": token}
        self.replay.ask({**request, "params": {**params, "rootfs": "local-lvm:2"}})
        self.replay.settle()
        # A new volume stays mounted for some seconds, and a base must not be mounted writable.
        self.runtime.volumes.unmount_idle(after=0)
        golden = self.runtime.names.image(GOLDEN)
        golden.parent.mkdir(parents=True)
        self.runtime.names.image(VolumeRef("pve", "local-lvm", "vm-9000-disk-0")).rename(golden)
        self.cluster.configs.remove(9000)

    def empty(self) -> None:
        """Remove all containers and volumes."""
        for vmid in self.cluster.configs.vmids():
            if self.runtime.containers.running(vmid):
                self.runtime.containers.stop(vmid)
            self.cluster.configs.remove(vmid)
        for storage in ("local-lvm", "dirct"):
            for volume in self.runtime.volumes.on("pve", storage):
                self.runtime.volumes.remove(volume.ref)

    def put(self, case: Mapping[str, Json]) -> None:
        """Load those parts of a recorded state that a case can use."""
        self.empty()
        state = self.states[case["before"]]
        for vmid, text in state["config"].items():
            self.cluster.configs.put(int(vmid), "pve", text)
        apply_access_lines(self.cluster.access, state["access"])
        self.cluster.access_changed()
        touched = self._touched(case, state)
        for name, size in state["volumes"].items():
            self._make_volume(name, size, touched)
        for path in state["dir"]:
            name = path.removeprefix("/var/lib/vz/images/")
            self.runtime.volumes.allocate(VolumeRef("pve", "dirct", name), 1 << 30)
        self._make_bind_sources(case)
        for vmid in state["running"]:
            if f"local-lvm:vm-{vmid}-disk-0" in touched:
                config = self.cluster.configs.load(int(vmid), "pve")
                self.runtime.containers.start(self.cluster.spec(int(vmid), "pve", config))

    def _touched(self, case: Mapping[str, Json], state: Mapping[str, Json]) -> set[str]:
        """Return the volumes that a case names, and those of the containers that it names."""
        asked = f"{case['request']['path']} {case['request'].get('params')}"
        vmids = {vmid for vmid in state["config"] if re.search(rf"(?<!\d){vmid}(?!\d)", asked)}
        vmids |= set(state["running"]) & {*vmids, *self._borrowers(vmids, state)}
        found = set(re.findall(r"local-lvm:[a-z]+-\d+-[\w-]+", asked))
        for vmid in vmids:
            found.update(every_volume(self.cluster.configs.load(int(vmid), "pve").options))
        return found

    def _borrowers(self, vmids: set[str], state: Mapping[str, Json]) -> set[str]:
        return {
            other
            for other, text in state["config"].items()
            if any(re.search(rf"(?:vm|base)-{vmid}-", text) for vmid in vmids)
        }

    def _make_volume(self, name: str, size: int, touched: set[str]) -> None:
        ref = VolumeRef("pve", "local-lvm", name)
        volid = f"local-lvm:{name}"
        self.runtime.volumes.allocate(ref, size)
        if volid in touched and re.search(r"-disk-\d+$", name):
            self.runtime.volumes.format(ref)
            if volid in self._roots():
                # The linked clone has another size than its base.
                layer = self.runtime.names.image(ref)
                os.link(self.runtime.names.image(GOLDEN), layer.with_name(f"{name}.base"))

    def _roots(self) -> set[str]:
        found = set()
        for vmid in self.cluster.configs.vmids():
            for point in mount_points(self.cluster.configs.load(vmid, "pve").options):
                if point.key == "rootfs":
                    found.add(point.volume)
        return found

    def _make_bind_sources(self, case: Mapping[str, Json]) -> None:
        for vmid in self.cluster.configs.vmids():
            for point in mount_points(self.cluster.configs.load(vmid, "pve").options):
                if point.type is MountType.BIND:
                    source = self.runtime.host_path("pve", point.volume)
                    if "removed on the host" in str(case.get("setup")):
                        if source.exists():
                            source.rmdir()
                    else:
                        source.mkdir(parents=True, exist_ok=True)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    state = tmp_path_factory.mktemp("on-lxc") / "state"
    try:
        made = Node(state)
        yield made
        made.runtime.close()
    finally:
        clean(state)


@pytest.mark.parametrize("case", _parameters())
def test_the_answer_with_real_containers_equals_the_recorded_one(case: dict[str, Json], node: Node) -> None:
    node.put(case)
    running = [str(v) for v in node.cluster.configs.vmids() if node.cluster.runtime.containers.running(v)]
    # Containers that the case cannot affect are not started.
    not_started = set(node.states[case["before"]]["running"]) - set(running)
    found = case_differences(case, node.states, node.replay, not_started)
    assert not found, "\n".join([case["case"], *found])
