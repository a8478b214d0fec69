"""Real containers of two nodes: a shared volume, a migration with its files, and a clone to the other node."""

from __future__ import annotations

from pathlib import Path

import pytest

from pvebox import unable_to_run
from pvebox.cluster.assembly import lxc_cluster
from pvebox.server.clean import clean
from sandbox.inprocess import Api
from sandbox.live.box import host_things, left_behind
from sandbox.test_cluster import fixture, migrate

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(unable_to_run() is not None, reason=str(unable_to_run())),
]


def test_files_move_with_a_container_and_both_nodes_can_mount_the_shared_volume(tmp_path: Path) -> None:
    before = host_things()
    state = tmp_path / "state"
    cluster, _ = lxc_cluster(state, fixture(), ("one", "two"), None)
    try:
        _move_and_share(Api(state, cluster=cluster))
    finally:
        cluster.runtime.close()
        clean(state)
    assert left_behind(before, state) == {}


def _move_and_share(api: Api) -> None:
    containers = api.cluster.runtime.containers
    assert api.create(100, "one", rootfs="local-lvm:1", mp0="shared:1,mp=/data", start=1).exitstatus == "OK"
    api.settle()
    containers.execute(100, ["sh", "-c", "echo shared > /data/note; echo local > /root/note"], None)
    assert migrate(api, 100, restart=1)[0] == "OK"
    assert containers.execute(100, ["cat", "/data/note", "/root/note"], None)[1] == "shared\nlocal\n"
    # Two nodes do not write to one volume at the same time.
    containers.stop(100)
    borrowed = "shared:100/vm-100-disk-0.raw,mp=/data"
    assert api.create(101, "one", rootfs="local-lvm:1", mp0=borrowed, start=1).exitstatus == "OK"
    api.settle()
    assert containers.execute(101, ["cat", "/data/note"], None)[1] == "shared\n"
    containers.stop(101)
    clone = {"newid": 102, "target": "one", "storage": "shared", "full": 1}
    assert api.task("POST", "/nodes/two/lxc/100/clone", **clone).exitstatus == "OK"
    assert api.task("POST", "/nodes/one/lxc/102/status/start").exitstatus == "OK"
    assert containers.execute(102, ["cat", "/data/note", "/root/note"], None)[1] == "shared\nlocal\n"
    containers.stop(102)
