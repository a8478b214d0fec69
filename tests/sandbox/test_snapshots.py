"""Snapshots, rollbacks, copies and shared volumes, where no recording shows them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pvebox.runtime.contract import VolumeRef
from sandbox.inprocess import Api

PET, CATTLE = "/nodes/pve/lxc/500", "/nodes/pve/lxc/505"
VOLUME = "local-lvm:vm-500-disk-1"


@pytest.fixture
def api(tmp_path: Path) -> Api:
    """A sandbox with a stopped container 500 and a stopped container 505 that mounts a volume of 500."""
    api = Api(tmp_path / "state")
    assert api.create(500, mp0="local-lvm:1,mp=/memory,backup=1").exitstatus == "OK"
    assert api.create(505, mp0=f"{VOLUME},mp=/memory").exitstatus == "OK"
    return api


def _volumes(api: Api) -> set[str]:
    return {volume.ref.name for volume in api.cluster.runtime.volumes.on("pve", "local-lvm")}


def _start(api: Api, path: str) -> str | None:
    return api.task("POST", f"{path}/status/start").exitstatus


def test_a_failed_snapshot_leaves_neither_volumes_nor_a_lock(api: Api) -> None:
    assert api.task("POST", f"{CATTLE}/snapshot", snapname="same").exitstatus == "OK"
    before = _volumes(api)
    task = api.task("POST", f"{PET}/snapshot", snapname="same")
    assert task.exitstatus is not None
    assert task.exitstatus.endswith('"snap_vm-500-disk-1_same" already exists in volume group "pve" ')
    assert "snapshot create failed: starting cleanup" in task.log
    assert _volumes(api) == before
    config = api.data("GET", f"{PET}/config")
    assert not {"lock", "parent"} & set(config)


def test_a_template_has_no_snapshots(api: Api) -> None:
    api.create(700)
    api.data("POST", "/nodes/pve/lxc/700/template")
    api.settle()
    task = api.task("POST", "/nodes/pve/lxc/700/snapshot", snapname="one")
    assert task.exitstatus == "you can't take a snapshot if it's a template"


@pytest.mark.parametrize(
    ("feature", "current", "template", "snapshot"), [("snapshot", 1, 0, 0), ("clone", 0, 1, 1), ("copy", 1, 1, 1)]
)
def test_features_depend_on_the_state_of_the_volumes(
    api: Api, feature: str, current: int, template: int, snapshot: int
) -> None:
    api.create(700)
    api.data("POST", "/nodes/pve/lxc/700/template")
    api.task("POST", f"{PET}/snapshot", snapname="one")
    api.settle()
    assert api.data("GET", f"{PET}/feature", feature=feature) == {"hasFeature": current}
    assert api.data("GET", "/nodes/pve/lxc/700/feature", feature=feature) == {"hasFeature": template}
    assert api.data("GET", f"{PET}/feature", feature=feature, snapname="one") == {"hasFeature": snapshot}


def test_an_unknown_snapshot_is_reported_before_a_lock(api: Api) -> None:
    config = api.cluster.configs.load(500, "pve")
    config.options["lock"] = "backup"
    api.cluster.configs.save(500, "pve", config)
    assert api.task("DELETE", f"{PET}/snapshot/none").exitstatus == "snapshot 'none' does not exist"
    assert api.task("DELETE", f"{PET}/snapshot/none", force=1).exitstatus == "snapshot 'none' does not exist"
    assert api.task("POST", f"{PET}/snapshot/none/rollback").exitstatus == "snapshot 'none' does not exist"


def test_deleting_a_snapshot_whose_copy_is_gone_needs_force(api: Api) -> None:
    api.task("POST", f"{PET}/snapshot", snapname="one")
    api.cluster.runtime.volumes.remove(VolumeRef("pve", "local-lvm", "snap_vm-500-disk-1_one"))
    task = api.task("DELETE", f"{PET}/snapshot/one")
    assert task.exitstatus == (
        "lvremove snapshot 'pve/snap_vm-500-disk-1_one' error: "
        '  Failed to find logical volume "pve/snap_vm-500-disk-1_one"'
    )
    assert api.data("GET", f"{PET}/config")["lock"] == "snapshot-delete"
    assert api.data("GET", f"{PET}/snapshot")[0]["snapstate"] == "delete"
    assert api.task("POST", f"{PET}/snapshot/one/rollback").exitstatus == (
        "unable to rollback to incomplete snapshot (snapstate = delete)"
    )
    config = api.cluster.configs.load(500, "pve")
    del config.options["lock"]
    api.cluster.configs.save(500, "pve", config)
    assert api.task("DELETE", f"{PET}/snapshot/one", force=1).exitstatus == "OK"
    assert [entry["name"] for entry in api.data("GET", f"{PET}/snapshot")] == ["current"]


def test_a_rollback_with_start_starts_in_a_task_of_its_own(api: Api) -> None:
    _start(api, CATTLE)
    api.task("POST", f"{CATTLE}/snapshot", snapname="one")
    assert api.task("POST", f"{CATTLE}/snapshot/one/rollback", start=1).exitstatus == "OK"
    api.settle()
    newest = [task.upid.type for task in api.cluster.tasks.newest_first()][:2]
    assert newest == ["vzstart", "vzrollback"]
    assert api.cluster.runtime.containers.running(505)


def test_other_requests_see_the_lock_of_a_snapshot_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    volumes = api.cluster.runtime.volumes
    copying, go_on = threading.Event(), threading.Event()
    copy = volumes.copy

    def slow(source: VolumeRef, target: VolumeRef) -> None:
        copying.set()
        go_on.wait(5)
        copy(source, target)

    monkeypatch.setattr(volumes, "copy", slow)
    upid = api.data("POST", f"{PET}/snapshot", snapname="one")
    assert copying.wait(5)
    assert api.reason("PUT", f"{PET}/config", description="x") == "CT is locked (snapshot)"
    go_on.set()
    assert api.cluster.tasks.wait(upid).exitstatus == "OK"


def test_read_only_and_writable_mounts_exclude_each_other(api: Api) -> None:
    api.create(542)
    api.data("PUT", "/nodes/pve/lxc/542/config", mp0=f"{VOLUME},mp=/m,ro=1")
    assert _start(api, CATTLE) == "OK"
    assert _start(api, "/nodes/pve/lxc/542") == "startup for container '542' failed"
    assert not api.cluster.runtime.containers.running(542)
    api.task("POST", f"{CATTLE}/status/stop")
    assert _start(api, "/nodes/pve/lxc/542") == "OK"
    assert _start(api, CATTLE) == "startup for container '505' failed"


def test_a_read_only_mount_of_a_writable_volume_is_not_added_to_a_running_container(api: Api) -> None:
    api.create(542)
    _start(api, CATTLE)
    _start(api, "/nodes/pve/lxc/542")
    answer = api.ask("PUT", "/nodes/pve/lxc/542/config", mp0=f"{VOLUME},mp=/m,ro=1")
    assert answer.status_code == 400
    assert answer.json()["errors"]["mp0"].startswith("unable to hotplug mp0: command 'mount -o ro ")
    assert api.ask("PUT", "/nodes/pve/lxc/542/config", mp0=f"{VOLUME},mp=/m").status_code == 200


@pytest.mark.parametrize("read_only", [0, 1])
def test_a_volume_is_moved_only_if_nobody_mounts_it_writable(api: Api, read_only: int) -> None:
    api.data("PUT", f"{CATTLE}/config", mp0=f"{VOLUME},mp=/memory,ro={read_only}")
    _start(api, CATTLE)
    task = api.task("POST", f"{PET}/move_volume", volume="mp0", storage="local-lvm")
    config = api.data("GET", f"{PET}/config")
    assert "lock" not in config
    if read_only:
        assert task.exitstatus == "OK"
        assert config["unused0"] == VOLUME
    else:
        assert task.exitstatus is not None
        assert task.exitstatus.startswith("command 'mount -o ro /dev/")
        assert task.exitstatus.endswith(" /var/lib/lxc/500/.copy-volume-2//' failed: exit code 32")
        assert config["mp0"].startswith(VOLUME)
        assert "vm-500-disk-2" not in _volumes(api)


def test_a_renamed_volume_stays_mounted(api: Api) -> None:
    api.create(543)
    _start(api, CATTLE)
    params = {"volume": "mp0", "target-vmid": 543, "target-volume": "mp0"}
    assert api.task("POST", f"{PET}/move_volume", **params).exitstatus == "OK"
    # The borrower still writes to it, so a copy needs it unmounted.
    task = api.task("POST", "/nodes/pve/lxc/543/move_volume", volume="mp0", storage="local-lvm")
    assert task.exitstatus is not None
    assert task.exitstatus.endswith("failed: exit code 32")
    api.task("POST", f"{CATTLE}/status/stop")
    assert _start(api, CATTLE) == "no such logical volume pve/vm-500-disk-1"


def test_a_moved_foreign_volume_gets_its_true_size_and_is_removed_from_its_owner(api: Api) -> None:
    assert "size" not in api.data("GET", f"{CATTLE}/config")["mp0"]
    task = api.task("POST", f"{CATTLE}/move_volume", volume="mp0", storage="local-lvm", delete=1)
    assert task.exitstatus == "OK"
    assert api.data("GET", f"{CATTLE}/config")["mp0"] == "local-lvm:vm-505-disk-1,mp=/memory,size=1G"
    assert "vm-500-disk-1" not in _volumes(api)


def test_a_running_container_is_cloned_only_from_a_snapshot(api: Api) -> None:
    _start(api, CATTLE)
    api.task("POST", f"{CATTLE}/snapshot", snapname="one", description="of the snapshot")
    reason = "Full clone of a running container is only possible from a snapshot"
    assert api.reason("POST", f"{CATTLE}/clone", newid=600, full=1) == reason
    assert api.task("POST", f"{CATTLE}/clone", newid=600, full=1, snapname="one").exitstatus == "OK"
    assert "lock" not in api.data("GET", f"{CATTLE}/config")


def test_a_config_is_read_of_a_snapshot_or_as_it_is_now_but_not_both(api: Api) -> None:
    api.task("POST", f"{PET}/snapshot", snapname="one")
    answer = api.ask("GET", f"{PET}/config", snapshot="one", current=1)
    assert set(answer.json()["errors"]) == {"snapshot", "current"}
    assert api.data("GET", f"{PET}/config", snapshot="one")["digest"] == api.data("GET", f"{PET}/config")["digest"]


def test_a_reboot_ignores_a_lock_and_a_stop_does_not(api: Api) -> None:
    _start(api, PET)
    config = api.cluster.configs.load(500, "pve")
    config.options["lock"] = "backup"
    api.cluster.configs.save(500, "pve", config)
    assert api.task("POST", f"{PET}/status/reboot").exitstatus == "OK"
    assert api.task("POST", f"{PET}/status/stop").exitstatus == "CT is locked (backup)"
