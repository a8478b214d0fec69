"""The lifecycle of containers on the memory runtime."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pvebox.cluster.tasks import Task
from pvebox.runtime.contract import Archive, ContainerSpec, Unpacked
from sandbox.inprocess import TEMPLATE, Api


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path / "state")


def config(api: Api, vmid: int) -> dict[str, object]:
    found: dict[str, object] = api.data("GET", f"/nodes/pve/lxc/{vmid}/config")
    return found


def test_a_container_is_locked_while_it_is_created(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacking, go_on = threading.Event(), threading.Event()

    def slow(spec: ContainerSpec, archive: Archive, task: Task) -> Unpacked:
        unpacking.set()
        go_on.wait(5)
        return Unpacked(systemd=252)

    monkeypatch.setattr(api.cluster.runtime.containers, "populate", slow)
    upid = api.data("POST", "/nodes/pve/lxc", vmid=100, ostemplate=TEMPLATE, rootfs="local-lvm:2")
    assert unpacking.wait(5)
    assert config(api, 100)["lock"] == "create"
    assert api.data("GET", f"/nodes/pve/tasks/{upid}/status")["status"] == "running"
    assert api.reason("DELETE", "/nodes/pve/lxc/100") == "CT is locked (create)"
    go_on.set()
    assert api.cluster.tasks.wait(upid, 5).exitstatus == "WARNINGS: 1"
    assert "lock" not in config(api, 100)


def test_a_failed_create_leaves_no_config_and_no_volume(api: Api) -> None:
    task = api.create(100, mp0="local-lvm:vm-999-disk-1,mp=/data")
    assert task.exitstatus == "unable to create CT 100 - no such logical volume pve/vm-999-disk-1"
    assert api.cluster.configs.vmids() == []
    assert api.cluster.runtime.volumes.on("pve", "local-lvm") == []


def test_destroying_a_container_keeps_the_volumes_of_another(api: Api) -> None:
    api.create(999, mp0="local-lvm:1,mp=/data", protection=1)
    api.create(105, mp0="local-lvm:vm-999-disk-1,mp=/home/agent", start=1)
    assert api.reason("DELETE", "/nodes/pve/lxc/999") == "can't remove CT 999 - protection mode enabled"
    gone = api.task("DELETE", "/nodes/pve/lxc/105", force=1)
    assert "ignore deletion of 'local-lvm:vm-999-disk-1', CT 105 isn't the owner!" in gone.log
    left = {volume.ref.name for volume in api.cluster.runtime.volumes.on("pve", "local-lvm")}
    assert left == {"vm-999-disk-0", "vm-999-disk-1"}


def test_a_volume_of_a_running_container_is_detached_when_it_stops(api: Api) -> None:
    api.create(100, mp0="local-lvm:1,mp=/data")
    api.task("POST", "/nodes/pve/lxc/100/status/start")
    api.data("PUT", "/nodes/pve/lxc/100/config", delete="mp0")
    assert "mp0" not in config(api, 100)
    pending = {entry["key"]: entry for entry in api.data("GET", "/nodes/pve/lxc/100/pending")}
    assert pending["mp0"]["delete"] == 1
    api.task("POST", "/nodes/pve/lxc/100/status/stop")
    assert config(api, 100)["unused0"] == "local-lvm:vm-100-disk-1"


def test_a_template_is_cloned_backed_up_and_restored(api: Api) -> None:
    api.create(900, hostname="builder", tags="a", net0="name=eth0,bridge=vmbr0,ip=dhcp")
    api.data("POST", "/nodes/pve/lxc/900/template")
    while api.cluster.tasks.running():
        api.cluster.tasks.running()[0].ended.wait(5)
    assert config(api, 900)["rootfs"] == "local-lvm:base-900-disk-0,size=2G"
    assert api.task("POST", "/nodes/pve/lxc/900/clone", newid=105, hostname="c").exitstatus == "OK"
    clone = config(api, 105)
    assert (clone["hostname"], clone["tags"], clone["rootfs"]) == (
        "c",
        "a",
        "local-lvm:vm-105-disk-0,size=2G",
    )
    assert clone["net0"] != config(api, 900)["net0"]
    assert api.task("POST", "/nodes/pve/vzdump", vmid="105", storage="local").exitstatus == "OK"
    (backup,) = api.data("GET", "/nodes/pve/storage/local/content", content="backup")
    restored = api.task("POST", "/nodes/pve/lxc", vmid=106, ostemplate=backup["volid"], restore=1, storage="local-lvm")
    assert (restored.upid.type, restored.exitstatus) == ("vzrestore", "OK")
    assert config(api, 106)["hostname"] == "c"


def test_a_rollback_includes_a_volume_of_another_container(api: Api) -> None:
    api.create(999, mp0="local-lvm:1,mp=/data")
    api.create(105, mp0="local-lvm:vm-999-disk-1,mp=/home/agent")
    api.task("POST", "/nodes/pve/lxc/105/snapshot", snapname="s1")
    names = {volume.ref.name for volume in api.cluster.runtime.volumes.on("pve", "local-lvm")}
    assert "snap_vm-999-disk-1_s1" in names
    api.task("POST", "/nodes/pve/lxc/999/status/start")
    failed = api.task("POST", "/nodes/pve/lxc/105/snapshot/s1/rollback")
    assert "contains a filesystem in use" in str(failed.exitstatus)
    assert config(api, 105)["lock"] == "rollback"


def test_a_snapshot_of_a_missing_volume_fails_and_leaves_no_lock(api: Api) -> None:
    api.create(999, mp0="local-lvm:1,mp=/data")
    api.create(105, mp0="local-lvm:vm-999-disk-1,mp=/home/agent")
    api.task("DELETE", "/nodes/pve/lxc/999")
    failed = api.task("POST", "/nodes/pve/lxc/105/snapshot", snapname="s1")
    assert 'Failed to find logical volume "pve/vm-999-disk-1"' in str(failed.exitstatus)
    assert "lock" not in config(api, 105)
    names = {volume.ref.name for volume in api.cluster.runtime.volumes.on("pve", "local-lvm")}
    assert names == {"vm-105-disk-0"}


def test_each_node_has_its_own_storages_and_containers(tmp_path: Path) -> None:
    api = Api(tmp_path / "two", nodes=("pve1", "pve2"))
    api.create(100, node="pve1")
    api.create(101, node="pve2")
    assert [entry["vmid"] for entry in api.data("GET", "/nodes/pve1/lxc")] == [100]
    assert api.reason("GET", "/nodes/pve1/lxc/101/config").startswith("Configuration file 'nodes/pve1/lxc/101")
    assert [entry["volid"] for entry in api.data("GET", "/nodes/pve2/storage/local-lvm/content")] == [
        "local-lvm:vm-101-disk-0"
    ]
    taken = api.reason("POST", "/nodes/pve2/lxc", vmid=100, ostemplate=TEMPLATE)
    assert taken == "CT 100 already exists on node 'pve1'"


def test_containers_tokens_and_tasks_survive_a_restart_of_the_server(api: Api) -> None:
    api.create(100, mp0="local-lvm:1,mp=/data")
    api.task("POST", "/nodes/pve/lxc/100/status/start")
    again = Api(api.directory)
    assert again.data("GET", "/nodes/pve/lxc/100/status/current")["status"] == "running"
    assert config(again, 100) == config(api, 100)
    assert len(again.cluster.runtime.volumes.on("pve", "local-lvm")) == 2
    assert again.cluster.access.tokens == api.cluster.access.tokens
    assert {str(task.upid) for task in again.cluster.tasks.newest_first()} == {
        str(task.upid) for task in api.cluster.tasks.newest_first()
    }


def test_the_cluster_resources_lag_behind(api: Api) -> None:
    api.create(100)
    (fresh,) = api.data("GET", "/cluster/resources", type="vm")
    assert fresh == {"id": "lxc/100", "type": "lxc", "vmid": 100, "node": "pve", "status": "unknown"}
    api.cluster.statistics.gather()
    (known,) = api.data("GET", "/cluster/resources", type="vm")
    assert (known["status"], known["name"]) == ("stopped", "CT100")


def test_only_one_of_several_creates_with_the_same_vmid_succeeds(api: Api) -> None:
    params = {"vmid": 100, "ostemplate": TEMPLATE, "rootfs": "local-lvm:1", "features": "nesting=1"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: api.ask("POST", "/nodes/pve/lxc", **params), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200, *[500] * 7]
    api.settle()
    assert len(api.cluster.runtime.volumes.on("pve", "local-lvm")) == 1


def test_sixteen_containers_are_created_run_and_destroyed_in_parallel(api: Api) -> None:
    def live(vmid: int) -> list[str | None]:
        made = [api.create(vmid, mp0="local-lvm:1,mp=/data").exitstatus]
        for verb in ("start", "stop"):
            made.append(api.task("POST", f"/nodes/pve/lxc/{vmid}/status/{verb}").exitstatus)
        return [*made, api.task("DELETE", f"/nodes/pve/lxc/{vmid}").exitstatus]

    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(live, range(100, 116)))
    assert ends == [["OK"] * 4] * 16
    assert api.cluster.configs.vmids() == []
    assert api.cluster.runtime.volumes.on("pve", "local-lvm") == []


def test_a_container_is_locked_while_it_is_cloned(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.create(900)
    go_on = threading.Event()
    settle = api.cluster.runtime.containers.settle_clone

    def slow(spec: ContainerSpec) -> Unpacked:
        go_on.wait(5)
        return settle(spec)

    monkeypatch.setattr(api.cluster.runtime.containers, "settle_clone", slow)
    api.data("POST", "/nodes/pve/lxc/900/clone", newid=101)
    assert api.reason("POST", "/nodes/pve/lxc/900/clone", newid=102) == "CT is locked (disk)"
    go_on.set()
    api.settle()
    assert api.cluster.configs.vmids() == [101, 900]
    assert "lock" not in config(api, 900)
