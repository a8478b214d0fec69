"""A sandbox of several nodes: migration, clones to another node, quorum, offline nodes and HA."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pvebox.cluster.assembly import memory_cluster
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.fixture import default_fixture
from pvebox.cluster.hamanager import HaManager
from pvebox.console.console import Console
from sandbox.inprocess import Api

ROOT = "root@pam!sandbox"
SHARED = {"type": "dir", "path": "/mnt/shared", "content": ["rootdir", "images", "backup"], "shared": 1}


@pytest.fixture
def api(tmp_path: Path) -> Api:
    """Return a client of a memory sandbox of two nodes with a shared storage. Paddock's token may migrate."""
    memory_cluster(tmp_path, fixture())
    return Api(tmp_path)


def fixture() -> dict[str, Any]:
    """Return the fixture of two nodes with a shared storage."""
    given = default_fixture(("one", "two"))
    given["storages"]["shared"] = SHARED
    given["storages"]["narrow"] = {"type": "lvmthin", "content": ["rootdir", "images"], "nodes": ["one"]}
    given["roles"]["PaddockGuests"] = [*given["roles"]["PaddockGuests"], "VM.Migrate"]
    return given


def migrate(api: Api, vmid: int, **params: Any) -> tuple[str | None, str]:
    """Migrate a container from one to two; return the exit status of the task and its log."""
    task = api.task("POST", f"/nodes/one/lxc/{vmid}/migrate", target="two", **params)
    return task.exitstatus, "\n".join(task.log)


def volumes(cluster: Cluster, node: str, storage: str = "local-lvm") -> set[str]:
    """Return the names of the volumes that a node sees on a storage."""
    return {volume.ref.name for volume in cluster.runtime.volumes.on(node, storage)}


def test_all_nodes_see_the_volumes_of_a_shared_storage(api: Api) -> None:
    api.create(100, "one", rootfs="shared:1")
    api.create(101, "two", rootfs="shared:1")
    listed = [api.data("GET", f"/nodes/{node}/storage/shared/content") for node in ("one", "two")]
    assert listed[0] == listed[1]
    assert [entry["volid"] for entry in listed[0]] == ["shared:100/vm-100-disk-0.raw", "shared:101/vm-101-disk-0.raw"]


def test_the_shared_volumes_and_ha_resources_outlive_the_server(api: Api) -> None:
    api.create(100, "one", rootfs="shared:1")
    api.ask("POST", "/cluster/ha/resources", ROOT, sid="ct:100", state="stopped", comment="a\nb: c")
    again = Api(api.directory)
    assert volumes(again.cluster, "two", "shared") == {"100/vm-100-disk-0.raw"}
    entry = again.ask("GET", "/cluster/ha/resources/ct:100", ROOT).json()["data"]
    assert (entry["state"], entry["comment"]) == ("stopped", "a\nb: c")


def test_a_migration_takes_the_local_volumes_along(api: Api) -> None:
    api.create(100, "one", mp0="local-lvm:1,mp=/data")
    assert migrate(api, 100)[0] == "OK"
    assert api.cluster.configs.node_of(100) == "two"
    assert volumes(api.cluster, "one") == set()
    assert volumes(api.cluster, "two") == {"vm-100-disk-0", "vm-100-disk-1"}
    assert api.data("GET", "/nodes/two/lxc/100/config")["rootfs"] == "local-lvm:vm-100-disk-0,size=2G"


def test_a_migrated_volume_whose_name_is_taken_gets_another_one(api: Api) -> None:
    api.create(100, "one")
    api.ask(*("POST", "/nodes/two/storage/local-lvm/content", ROOT), vmid=100, filename="vm-100-disk-0", size="1G")
    assert migrate(api, 100)[0] == "OK"
    assert api.data("GET", "/nodes/two/lxc/100/config")["rootfs"] == "local-lvm:vm-100-disk-1,size=2G"


def test_a_migration_refuses_a_local_volume_of_another_container(api: Api) -> None:
    api.create(100, "one", mp0="local-lvm:1,mp=/data")
    api.create(101, "one", mp0="local-lvm:vm-100-disk-1,mp=/data")
    before = api.cluster.configs.text(101, "one")
    status, log = migrate(api, 101)
    assert status == "migration aborted"
    assert "can't migrate local volume 'local-lvm:vm-100-disk-1': owned by other guest (owner = 100)" in log
    assert api.cluster.configs.text(101, "one") == before
    assert volumes(api.cluster, "two") == set()


def test_a_migration_refuses_snapshots_of_local_volumes(api: Api) -> None:
    api.create(100, "one")
    api.task("POST", "/nodes/one/lxc/100/snapshot", snapname="before")
    status, log = migrate(api, 100)
    assert status == "migration aborted"
    assert "non-migratable snapshot exists" in log


def test_a_migration_refuses_a_storage_that_the_target_lacks(api: Api) -> None:
    api.create(100, "one", rootfs="narrow:1")
    status, log = migrate(api, 100)
    assert status == "migration aborted"
    assert "storage 'narrow' is not available on node 'two'" in log
    assert migrate(api, 100, **{"target-storage": "narrow:local-lvm"})[0] == "OK"
    assert api.data("GET", "/nodes/two/lxc/100/config")["rootfs"] == "local-lvm:vm-100-disk-0,size=1G"


def test_a_running_container_migrates_only_with_restart(api: Api) -> None:
    api.create(100, "one", start=1)
    api.settle()
    refusal = "can't migrate running container without --online or --restart"
    assert api.reason("POST", "/nodes/one/lxc/100/migrate", target="two") == refusal
    assert migrate(api, 100, online=1)[0] == "migration aborted"
    assert api.cluster.runtime.containers.running(100)
    assert migrate(api, 100, restart=1)[0] == "OK"
    assert api.cluster.runtime.containers.running(100)
    assert api.cluster.configs.node_of(100) == "two"


def test_a_failed_migration_with_restart_starts_the_container_on_its_node_again(api: Api) -> None:
    api.create(100, "one", mp0="local-lvm:1,mp=/data")
    api.create(101, "one", mp0="local-lvm:vm-100-disk-1,mp=/data", start=1)
    api.settle()
    assert migrate(api, 101, restart=1)[0] == "migration aborted"
    assert api.cluster.configs.node_of(101) == "one"
    assert api.cluster.runtime.containers.running(101)
    assert "lock" not in api.data("GET", "/nodes/one/lxc/101/config")


def test_an_unused_volume_moves_with_its_container(api: Api) -> None:
    api.create(100, "one", mp0="local-lvm:1,mp=/data")
    api.data("PUT", "/nodes/one/lxc/100/config", delete="mp0")
    assert migrate(api, 100, **{"target-storage": "shared"})[0] == "OK"
    assert api.data("GET", "/nodes/two/lxc/100/config")["unused0"] == "shared:100/vm-100-disk-1.raw"


def test_a_clone_goes_to_another_node_only_on_a_shared_storage(api: Api) -> None:
    api.create(100, "one")
    path = "/nodes/one/lxc/100/clone"
    refusal = "can't clone CT to node 'two' (CT uses local storage)"
    assert api.reason("POST", path, newid=101, target="two") == refusal
    assert not api.cluster.configs.exists(101)
    assert "lock" not in api.data("GET", "/nodes/one/lxc/100/config")
    refusal = "can't clone to non-shared storage 'local-lvm'"
    assert api.reason("POST", path, newid=101, target="two", storage="local-lvm") == refusal
    assert api.task("POST", path, newid=101, target="two", storage="shared", full=1).exitstatus == "OK"
    assert api.data("GET", "/nodes/two/lxc/101/config")["rootfs"] == "shared:101/vm-101-disk-0.raw,size=2G"


def test_an_offline_node_is_unreachable_for_those_with_the_privilege(api: Api) -> None:
    api.create(100, "two")
    api.cluster.members.offline.add("two")
    answer = api.ask("GET", "/nodes/two/lxc/100/config")
    assert (answer.status_code, answer.headers["x-pvebox-reason"], answer.content) == (595, "No route to host", b"")
    assert api.ask("GET", "/nodes/two/lxc/100/config", "pooled@pve!daily").status_code == 403
    listed = {node["node"]: node["status"] for node in api.data("GET", "/nodes")}
    assert listed == {"one": "online", "two": "offline"}
    assert api.reason("GET", "/cluster/nextid", vmid=100) == "Parameter verification failed."


def test_a_silent_node_is_unknown_and_goes_on_answering(api: Api) -> None:
    """Its guests have no name, no figures and no template flag in the cluster's list. Their tags stay."""
    api.create(100, "two", hostname="quiet", tags="paddock", start=1)
    api.settle()
    api.cluster.statistics.gather()
    api.cluster.members.silent.add("two")
    assert {node["node"]: node["status"] for node in api.data("GET", "/nodes")} == {"one": "online", "two": "unknown"}
    [listed] = api.data("GET", "/cluster/resources", type="vm")
    assert listed == {
        "id": "lxc/100",
        "type": "lxc",
        "vmid": 100,
        "node": "two",
        "status": "unknown",
        "tags": "paddock",
    }
    storages = [row for row in api.data("GET", "/cluster/resources", type="storage") if row["node"] == "two"]
    assert {row["status"] for row in storages} == {"unknown"}
    assert not any("disk" in row for row in storages)
    assert api.data("GET", "/nodes/two/lxc/100/status/current")["status"] == "running"
    assert api.data("GET", "/nodes/two/lxc")[0]["name"] == "quiet"
    api.cluster.members.offline.add("two")
    assert {node["status"] for node in api.data("GET", "/nodes")} == {"online", "offline"}


def test_a_migration_to_an_offline_node_leaves_the_container_running(api: Api) -> None:
    api.create(100, "one", start=1)
    api.settle()
    api.cluster.members.offline.add("two")
    status, log = migrate(api, 100, restart=1)
    assert status == "migration aborted"
    assert "Can't connect to destination address using public key" in log
    assert api.cluster.runtime.containers.running(100)


def test_without_quorum_nothing_can_be_created_started_or_changed(api: Api) -> None:
    api.create(100, "one")
    api.cluster.members.quorate = False
    refusal = "cluster not ready - no quorum?"
    assert api.reason("POST", "/nodes/one/lxc", vmid=101, ostemplate="local:vztmpl/x.tar.zst") == refusal
    assert api.reason("POST", "/nodes/one/lxc/100/status/start") == refusal
    assert api.reason("POST", "/nodes/one/lxc/100/clone", newid=101) == refusal
    assert api.reason("POST", "/nodes/one/lxc/100/migrate", target="two") == refusal
    changed = api.reason("PUT", "/nodes/one/lxc/100/config", description="x")
    assert changed.startswith("unable to open file '/etc/pve/nodes/one/lxc/100.conf.tmp.")
    assert changed.endswith("' - Permission denied")
    locked = "create pool failed: cfs-lock 'file-user_cfg' error: no quorum!"
    assert api.reason("POST", "/pools", ROOT, poolid="new") == locked
    assert api.data("GET", "/nodes/one/lxc/100/config")["hostname"] == "CT100"


def test_without_quorum_a_destroy_removes_local_volumes_and_keeps_the_config(api: Api) -> None:
    api.create(100, "one")
    api.create(101, "one", rootfs="shared:1")
    api.cluster.members.quorate = False
    local, shared = (api.task("DELETE", f"/nodes/one/lxc/{vmid}").exitstatus for vmid in (100, 101))
    assert str(local).endswith("Permission denied")
    assert shared == "cfs-lock 'storage-shared' error: no quorum!"
    assert volumes(api.cluster, "one") == set()
    assert volumes(api.cluster, "one", "shared") == {"101/vm-101-disk-0.raw"}
    assert api.cluster.configs.vmids() == [100, 101]
    api.cluster.members.quorate = True
    assert api.task("DELETE", "/nodes/one/lxc/100").exitstatus == "OK"


def test_without_quorum_a_stopped_container_keeps_its_pending_changes(api: Api) -> None:
    api.create(100, "one", mp0="local-lvm:1,mp=/data", start=1)
    api.settle()
    api.data("PUT", "/nodes/one/lxc/100/config", mp0="local-lvm:vm-100-disk-1,mp=/other")
    before = api.cluster.configs.text(100, "one")
    api.cluster.members.quorate = False
    assert api.task("POST", "/nodes/one/lxc/100/status/stop").exitstatus == "OK"
    assert "[pve:pending]" in before
    assert api.cluster.configs.text(100, "one") == before


def test_ha_takes_over_start_and_stop_of_its_containers(api: Api) -> None:
    api.create(100, "one")
    api.ask("POST", "/cluster/ha/resources", ROOT, sid="100", state="stopped")
    started = api.task("POST", "/nodes/one/lxc/100/status/start")
    assert (started.upid.type, started.exitstatus) == ("hastart", "OK")
    assert not api.cluster.runtime.containers.running(100)
    assert api.cluster.ha.resources["ct:100"]["state"] == "started"
    assert api.data("GET", "/nodes/one/lxc/100/status/current")["ha"] == {"managed": 1, "state": None}
    assert api.task("POST", "/nodes/one/lxc/100/migrate", target="two").upid.type == "hamigrate"
    api.ask("PUT", "/cluster/ha/resources/ct:100", ROOT, state="ignored")
    assert api.task("POST", "/nodes/one/lxc/100/status/start").upid.type == "vzstart"


def until(happens: Callable[[], bool]) -> None:
    """Wait for what the HA daemons do."""
    end = time.monotonic() + 5
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_the_ha_daemons_stop_a_container_after_the_task_has_ended(api: Api) -> None:
    api.create(100, "one", start=1)
    api.settle()
    Console(api.cluster).run(["ha-manager", "add", "ct:100"])
    api.cluster.ha.manager = HaManager(api.cluster, 0.2)
    current = "/nodes/one/lxc/100/status/current"
    asked = api.task("POST", "/nodes/one/lxc/100/status/shutdown")
    assert (asked.upid.type, asked.exitstatus) == ("hastop", "OK")
    now = api.data("GET", current)
    assert (now["status"], now["ha"]) == ("running", {"managed": 1, "state": "request_stop"})
    assert api.reason("POST", "/nodes/one/lxc/100/status/start") == "CT 100 already running"
    until(lambda: api.data("GET", current)["ha"]["state"] == "stopped")
    assert api.data("GET", current)["status"] == "stopped"
    [real] = [task for task in api.cluster.tasks.newest_first() if task.upid.type == "vzshutdown"]
    assert real.upid.user == "root@pam"
    assert api.task("POST", "/nodes/one/lxc/100/status/start").upid.type == "hastart"
    until(lambda: api.data("GET", "/cluster/resources", type="vm")[0]["hastate"] == "started")
    assert api.cluster.runtime.containers.running(100)


def test_a_queued_stop_overtakes_a_start(api: Api) -> None:
    api.create(100, "one", start=1)
    api.settle()
    Console(api.cluster).run(["ha-manager", "add", "ct:100"])
    api.cluster.ha.manager = HaManager(api.cluster, 0.2)
    api.task("POST", "/nodes/one/lxc/100/status/stop")
    api.cluster.runtime.containers.stop(100)  # it ended by itself
    api.task("POST", "/nodes/one/lxc/100/status/start")
    until(lambda: api.cluster.ha.state_of(100) in ("started", "stopped"))
    assert Console(api.cluster).run(["ha-manager", "remove", "ct:100"]).code == 0
    assert api.data("GET", "/nodes/one/lxc/100/status/current")["ha"] == {"managed": 0}


def test_a_container_under_ha_is_destroyed_only_with_purge(api: Api) -> None:
    api.create(100, "one")
    api.ask("POST", "/cluster/ha/resources", ROOT, sid="ct:100", state="ignored")
    refusal = "unable to remove CT 100 - used in HA resources and purge parameter not set."
    assert api.reason("DELETE", "/nodes/one/lxc/100") == refusal
    assert api.task("DELETE", "/nodes/one/lxc/100", purge=1).exitstatus == "OK"
    assert api.cluster.ha.resources == {}


def test_a_container_can_be_created_under_ha(api: Api) -> None:
    created = {"vmid": 100, "ostemplate": "local:vztmpl/debian-12-standard_12.12-1_amd64.tar.zst"}
    answer = api.ask("POST", "/nodes/one/lxc", ROOT, **created, rootfs="local-lvm:1", **{"ha-managed": 1})
    api.cluster.tasks.wait(answer.json()["data"], 10)
    assert api.cluster.ha.resources == {"ct:100": {"type": "ct", "state": "stopped"}}


def test_ha_resources_are_defined_once(api: Api) -> None:
    api.create(100, "one")
    api.ask("POST", "/cluster/ha/resources", ROOT, sid="ct:100")
    again = api.reason("POST", "/cluster/ha/resources", ROOT, sid="ct:100")
    assert again == "create resource failed: resource ID 'ct:100' already defined"
    missing = api.reason("PUT", "/cluster/ha/resources/ct:101", ROOT, state="started")
    assert missing == "update resource failed: no such resource 'ct:101'"
    missing = api.reason("DELETE", "/cluster/ha/resources/ct:101", ROOT)
    assert missing == "cannot delete service 'ct:101', not HA managed!"
    invalid = api.ask("POST", "/cluster/ha/resources", ROOT, sid="ct:../x")
    assert invalid.status_code == 400


def rule(api: Api, name: str, kind: str, resources: str, **more: Any) -> str:
    """Add an HA rule and return the message of the answer."""
    answer = api.ask("POST", "/cluster/ha/rules", ROOT, rule=name, type=kind, resources=resources, **more)
    return str(answer.json().get("message", ""))


def test_ha_rules_that_contradict_each_other_are_refused(api: Api) -> None:
    for vmid in (100, 101, 102):
        api.create(vmid, "one")
        api.ask("POST", "/cluster/ha/resources", ROOT, sid=f"ct:{vmid}", state="stopped")
    assert rule(api, "near", "resource-affinity", "ct:101,ct:100", affinity="positive") == ""
    prefix = "create ha rule failed: 400 Rule 'far' is invalid.\nresources: "
    said = rule(api, "far", "resource-affinity", "ct:100,ct:101", affinity="negative")
    assert said == f"{prefix}rule shares two or more resources with a positive resource affinity rule\n"
    said = rule(api, "far", "resource-affinity", "ct:100,ct:101,ct:102", affinity="negative")
    assert "rule defines more resources than available nodes" in said
    said = rule(api, "far", "resource-affinity", "ct:102", affinity="negative")
    assert said == f"{prefix}rule is ineffective as there are less than two resources\n"
    said = rule(api, "there", "node-affinity", "ct:100", nodes="one:1,two:2")
    assert "cannot be in a node affinity rule with multiple priorities" in said
    assert rule(api, "there", "node-affinity", "ct:100", nodes="two,one", strict=1) == ""
    said = rule(api, "here", "node-affinity", "ct:100", nodes="one")
    assert "resource 'ct:100' is already used in another node affinity rule" in said
    said = rule(api, "here", "node-affinity", "ct:102", nodes="three")
    assert said == "create ha rule failed: cannot use non-existant node(s) three.\n"
    listed = api.ask("GET", "/cluster/ha/rules", ROOT).json()["data"]
    shown = [(entry["rule"], entry["order"], entry["resources"], entry.get("nodes")) for entry in listed]
    assert shown == [("near", 1, "ct:100,ct:101", None), ("there", 2, "ct:100", "one,two")]


def test_a_volume_moves_from_a_shared_storage_to_a_local_one_and_back(api: Api) -> None:
    api.create(100, "two", rootfs="shared:1")
    move = "/nodes/two/lxc/100/move_volume"
    assert api.task("POST", move, volume="rootfs", storage="local-lvm", delete=1).exitstatus == "OK"
    assert api.data("GET", "/nodes/two/lxc/100/config")["rootfs"] == "local-lvm:vm-100-disk-0,size=1G"
    assert (volumes(api.cluster, "one"), volumes(api.cluster, "two")) == (set(), {"vm-100-disk-0"})
    assert api.task("POST", move, volume="rootfs", storage="shared", delete=1).exitstatus == "OK"
    assert (volumes(api.cluster, "two"), volumes(api.cluster, "one", "shared")) == (set(), {"100/vm-100-disk-0.raw"})


def test_two_nodes_do_not_write_to_a_shared_volume_at_the_same_time(api: Api) -> None:
    api.create(100, "one", rootfs="shared:1", mp0="shared:1,mp=/data")
    api.create(101, "two", rootfs="shared:1", mp0="shared:100/vm-100-disk-1.raw,mp=/data")
    assert api.task("POST", "/nodes/one/lxc/100/status/start").exitstatus == "OK"
    assert api.task("POST", "/nodes/two/lxc/101/status/start").exitstatus == "startup for container '101' failed"
    assert api.task("POST", "/nodes/one/lxc/100/status/stop").exitstatus == "OK"
    assert api.task("POST", "/nodes/two/lxc/101/status/start").exitstatus == "OK"
