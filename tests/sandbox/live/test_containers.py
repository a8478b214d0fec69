"""The sandbox with real containers: ssh, shared volumes, clones, snapshots, backups, and complete removal."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from levels import by_level, slow_proof
from pvebox import unable_to_run
from sandbox.live.box import Box, host_things, left_behind, running_box, serve, wait_for

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(unable_to_run() is not None, reason=str(unable_to_run())),
]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    before = host_things()
    directory = tmp_path_factory.mktemp("live")
    with running_box(directory) as made:
        yield made
    assert left_behind(before, made.state) == {}


def remove(box: Box, *vmids: int) -> None:
    for vmid in vmids:
        assert box.task("DELETE", f"/nodes/pve/lxc/{vmid}", force=1, purge=1) == "OK"


def test_a_volume_outlives_a_container_that_mounted_it(box: Box) -> None:
    assert box.create(999, mp0="local-lvm:1,mp=/data,backup=1", hostname="pet") == "OK"
    assert box.create(105, mp0="local-lvm:vm-999-disk-1,mp=/home/agent", hostname="cattle", start=1) == "OK"
    assert box.ssh(105, "hostname") == "cattle\n"
    assert box.ssh(105, "systemctl", "is-system-running", "--wait") == "running\n"
    box.ssh(105, "head -c 3000000 /dev/urandom > /home/agent/fact && sync")
    digest = box.ssh(105, "sha256sum", "/home/agent/fact").split()[0]
    answer = box.client.delete("/nodes/pve/lxc/105")
    assert (answer.status_code, answer.reason_phrase) == (
        500,
        "unable to destroy CT 105 - container is running",
    )
    assert box.task("POST", "/nodes/pve/lxc/105/status/shutdown", timeout=20, forceStop=1) == "OK"
    assert box.task("DELETE", "/nodes/pve/lxc/105", purge=1) == "OK"
    assert box.task("POST", "/nodes/pve/lxc/999/status/start") == "OK"
    assert box.ssh(999, "sha256sum", "/data/fact").split()[0] == digest
    remove(box, 999)


def test_two_containers_with_one_volume_see_each_others_locks(box: Box) -> None:
    assert box.create(200, mp0="local-lvm:1,mp=/data", start=1) == "OK"
    assert box.create(201, mp0="local-lvm:vm-200-disk-1,mp=/data", start=1) == "OK"
    box.ssh(200, "flock -n /data/lock -c 'sleep 100' > /dev/null 2>&1 & sleep 0.3")
    assert box.ssh(201, "flock -n /data/lock true && echo free || echo held") == "held\n"
    assert box.task("POST", "/nodes/pve/lxc/200/status/stop") == "OK"
    assert box.ssh(201, "flock -n /data/lock true && echo free || echo held") == "free\n"
    remove(box, 201, 200)


def test_a_running_container_takes_a_new_mount_point_and_keeps_its_address(box: Box) -> None:
    assert box.create(210, start=1) == "OK"
    address = box.address(210)
    box.call("PUT", "/nodes/pve/lxc/210/config", mp0="local-lvm:1,mp=/hot")
    assert "/hot" in box.ssh(210, "cat /proc/mounts")
    assert box.task("POST", "/nodes/pve/lxc/210/status/reboot") == "OK"
    assert box.address(210) == address
    assert "/hot" in box.ssh(210, "cat /proc/mounts")
    box.ssh(210, "poweroff || true")
    status = f"/nodes/pve/lxc/{210}/status/current"
    wait_for(lambda: box.call("GET", status)["status"] == "stopped", 20)
    remove(box, 210)


def test_a_template_and_two_linked_clones_run_at_once(box: Box) -> None:
    assert box.create(300, hostname="builder", start=1) == "OK"
    box.ssh(300, "echo built > /etc/built; sync")
    keys = box.ssh(300, "cat /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    machine = box.ssh(300, "cat /etc/machine-id")
    assert box.task("POST", "/nodes/pve/lxc/300/status/shutdown") == "OK"
    box.call("POST", "/nodes/pve/lxc/300/template")
    config = "/nodes/pve/lxc/300/config"
    wait_for(lambda: box.call("GET", config).get("template") == 1, 10)
    for clone in (301, 302):
        assert box.task("POST", "/nodes/pve/lxc/300/clone", newid=clone, hostname=f"c{clone}") == "OK"
        assert box.task("POST", f"/nodes/pve/lxc/{clone}/status/start") == "OK"
    for clone in (301, 302):
        assert box.ssh(clone, "cat /etc/built; hostname") == f"built\nc{clone}\n"
        box.ssh(clone, f"echo {clone} > /etc/own")
        assert box.ssh(clone, "cat /etc/machine-id") != machine
        assert box.ssh(clone, "cat /etc/ssh/ssh_host_ed25519_key.pub").split()[1] == keys
    assert box.address(301) != box.address(302)
    # On LVM-thin a base can be removed while its clones exist.
    remove(box, 300)
    assert box.ssh(301, "cat /etc/own /etc/built") == "301\nbuilt\n"
    assert box.task("POST", "/nodes/pve/lxc/302/status/reboot") == "OK"
    assert box.ssh(302, "cat /etc/own /etc/built") == "302\nbuilt\n"
    remove(box, 301, 302)


def test_a_rollback_and_a_restored_backup_bring_back_earlier_files(box: Box) -> None:
    assert box.create(400, mp0="local-lvm:1,mp=/data,backup=1", start=1) == "OK"
    box.ssh(400, "echo first > /data/f; echo first > /root/f; sync")
    assert box.task("POST", "/nodes/pve/lxc/400/snapshot", snapname="before") == "OK"
    assert box.task("POST", "/nodes/pve/vzdump", vmid="400", storage="local", mode="snapshot") == "OK"
    box.ssh(400, "echo second > /data/f; echo second > /root/f; sync")
    assert box.task("POST", "/nodes/pve/lxc/400/snapshot/before/rollback", start=1) == "OK"
    assert box.ssh(400, "cat /data/f /root/f") == "first\nfirst\n"
    backups = box.call("GET", "/nodes/pve/storage/local/content", content="backup")
    assert [backup["vmid"] for backup in backups] == [400]
    remove(box, 400)
    restored = box.task(
        *("POST", "/nodes/pve/lxc"),
        vmid=401,
        ostemplate=backups[0]["volid"],
        restore=1,
        storage="local-lvm",
        start=1,
    )
    assert restored == "OK"
    assert box.ssh(401, "cat /data/f /root/f") == "first\nfirst\n"
    remove(box, 401)


def test_root_mounts_host_directories_that_no_token_can_mount(box: Box) -> None:
    assert box.create(600) == "OK"
    box.root("mkdir", "-p", "/srv/shared")
    box.root("chown", "110000:110000", "/srv/shared")
    box.root("pct", "set", "600", "-mp0", "/srv/shared,mp=/shared")
    box.root("pct", "start", "600")
    assert box.root("pct", "exec", "600", "--", "stat", "-c", "%u:%g", "/shared") == "10000:10000\n"
    assert box.ssh(600, "touch /shared/x; ls /shared") == "x\n"
    assert box.root("ls", "/srv/shared") == "x\n"
    (box.state / "greeting").write_text("hello\n", encoding="utf-8")
    box.root("pct", "push", "600", str(box.state / "greeting"), "/etc/greeting", "--perms", "0600")
    assert box.root("pct", "exec", "600", "--", "stat", "-c", "%a %u", "/etc/greeting") == "600 0\n"
    assert box.root("pct", "exec", "600", "--", "cat", "/etc/greeting") == "hello\n"
    box.root("pct", "stop", "600")
    box.root("pct", "destroy", "600")


@slow_proof
def test_cycles_leave_nothing_behind(box: Box) -> None:
    before = host_things()
    for number in range(by_level(6, 20)):
        vmid = 500 + number % 2
        assert box.create(vmid, mp0="local-lvm:1,mp=/data", start=1) == "OK"
        wait_for(lambda: box.call("GET", f"/nodes/pve/lxc/{vmid}/status/current")["status"] == "running", 10)  # noqa: B023
        remove(box, vmid)
    assert left_behind(before, box.state) == {}


def test_containers_survive_their_server_and_clean_removes_them(tmp_path: Path) -> None:
    before = host_things()
    with running_box(tmp_path) as box:
        assert box.create(100, mp0="local-lvm:1,mp=/data", start=1) == "OK"
        digest = hashlib.sha256(box.ssh(100, "cat /etc/machine-id").encode()).hexdigest()
        box.server.kill()
        box.server.wait(10)
        server, ready = serve(box.state)
        box.server = server
        box.client.base_url = f"{ready['url']}/api2/json"
        assert box.call("GET", "/nodes/pve/lxc/100/status/current")["status"] == "running"
        assert hashlib.sha256(box.ssh(100, "cat /etc/machine-id").encode()).hexdigest() == digest
        server.kill()
        server.wait(10)
    assert left_behind(before, box.state) == {}


def test_a_server_killed_while_it_creates_leaves_a_lock_that_the_console_removes(tmp_path: Path) -> None:
    before = host_things()
    with running_box(tmp_path) as box:
        params = {"ostemplate": box.ready["base"], "rootfs": "local-lvm:2", "features": "nesting=1"}
        upid = box.call("POST", "/nodes/pve/lxc", vmid=100, **params)
        time.sleep(0.4)
        box.server.kill()
        box.server.wait(10)
        box.server, ready = serve(box.state)
        box.client.base_url = f"{ready['url']}/api2/json"
        assert box.call("GET", "/nodes/pve/lxc/100/config")["lock"] == "create"
        assert box.ended(upid)["exitstatus"] == "unexpected status"
        assert box.client.delete("/nodes/pve/lxc/100").reason_phrase == "CT is locked (create)"
        box.root("pct", "unlock", "100")
        assert box.task("DELETE", "/nodes/pve/lxc/100", **{"destroy-unreferenced-disks": 1}) == "OK"
        assert box.create(100) == "OK"
    assert left_behind(before, box.state) == {}


@slow_proof
def test_a_recorded_state_is_created_with_real_containers(tmp_path: Path) -> None:
    recordings = Path(__file__).parents[1] / "data" / "recordings"
    fixture = json.loads((recordings / "fixture.json").read_text(encoding="utf-8"))
    states = json.loads((recordings / "states.json").read_text(encoding="utf-8"))
    case = next(state for state in states.values() if state["running"] == ["105"] and "999" in state["config"])
    (tmp_path / "fixture.json").write_text(json.dumps({**fixture, "state": case}), encoding="utf-8")
    with running_box(tmp_path, "--fixture", str(tmp_path / "fixture.json")) as box:
        listed = {entry["vmid"]: entry["status"] for entry in box.call("GET", "/nodes/pve/lxc")}
        assert listed[105] == "running"
        assert listed[999] == "stopped"
        assert "/home/hermes" in box.root("pct", "exec", "105", "--", "cat", "/proc/mounts")
