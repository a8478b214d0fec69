"""Restores: what comes from the call, what from the backup, and what a failed restore leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pvebox.cluster.tasks import Task
from pvebox.guests.storage import Storage, StorageType
from sandbox.inprocess import Api

Json = Any
ROOT = "root@pam!sandbox"
BACKUP = "local:backup/vzdump-lxc-100-2026_11_01-08_00_00.tar.zst"
CREATE = "/nodes/pve/lxc"
SAVED = """#kept
arch: amd64
features: nesting=1
hostname: pet
memory: 256
mp0: local-lvm:vm-100-disk-1,mp=/data,backup=1,size=1G
net0: name=eth0,bridge=vmbr0,hwaddr=BC:24:11:00:00:01,type=veth
onboot: 1
ostype: debian
protection: 1
rootfs: local-lvm:vm-100-disk-0,size=2G
swap: 512
tags: paddock
unprivileged: 1
unused0: local-lvm:vm-100-disk-7
"""


@pytest.fixture
def api(tmp_path: Path) -> Api:
    made = Api(tmp_path / "state")
    made.cluster.storages["files"] = Storage("files", StorageType.DIR, ("rootdir", "images"), path="/srv/files")
    return made


def restore(api: Api, saved: str = SAVED, token: str = ROOT, /, **params: Json) -> Task:
    """Restore a backup with this config, and return the finished task."""
    store, _, name = BACKUP.partition(":")
    api.cluster.runtime.note_file("pve", store, name, 5000, saved)
    given = {"vmid": 110, "ostemplate": BACKUP, "restore": 1, "storage": "local-lvm", **params}
    answer = api.ask("POST", CREATE, token, **given)
    assert answer.status_code == 200, answer.text
    return api.cluster.tasks.wait(answer.json()["data"], 10)


def options(api: Api, vmid: int = 110) -> dict[str, Json]:
    return dict(api.cluster.configs.load(vmid, "pve").options)


def volumes(api: Api, storage: str = "local-lvm") -> dict[str, int]:
    return {v.ref.name: v.size >> 20 for v in api.cluster.runtime.volumes.on("pve", storage)}


def test_a_restore_keeps_the_saved_options_and_makes_new_volumes(api: Api) -> None:
    assert restore(api).exitstatus == "OK"
    restored = options(api)
    assert restored["rootfs"] == "local-lvm:vm-110-disk-0,size=2G"
    assert restored["mp0"] == "local-lvm:vm-110-disk-1,mp=/data,backup=1,size=1G"
    assert (restored["protection"], restored["onboot"], restored["tags"]) == (1, 1, "paddock")
    assert restored["description"] == "kept\n"
    assert "hwaddr=BC:24:11:00:00:01" in restored["net0"]
    assert not {"unused0", "lock"} & restored.keys()
    assert volumes(api) == {"vm-110-disk-0": 2048, "vm-110-disk-1": 1024}


def test_given_options_win_and_unique_makes_new_addresses(api: Api) -> None:
    assert restore(api, memory=64, protection=0, unique=1, pool="paddock").exitstatus == "OK"
    restored = options(api)
    assert (restored["memory"], restored["protection"]) == (64, 0)
    assert "hwaddr=" in restored["net0"]
    assert "BC:24:11:00:00:01" not in restored["net0"]
    assert api.cluster.access.pool_of(110) == "paddock"


def test_a_root_alone_takes_no_saved_mount_point(api: Api) -> None:
    assert restore(api, rootfs="files:1", storage="local").exitstatus == "OK"
    assert "mp0" not in options(api)
    assert volumes(api, "files") == {"110/vm-110-disk-0.raw": 1024}
    assert api.reason(
        "POST", CREATE, ROOT, vmid=111, ostemplate=BACKUP, restore=1, storage="local-lvm", mp0="local-lvm:1,mp=/data"
    ) == ("mount points configured, but 'rootfs' not set - aborting")


def test_a_network_of_the_backup_needs_the_privilege_to_use_its_bridge(api: Api) -> None:
    token = api.token_with(
        vms_110=("VM.Allocate",),
        vms_100=("VM.Backup",),
        storage_local=("Datastore.AllocateSpace",),
        **{"storage_local-lvm": ("Datastore.AllocateSpace",)},
    )
    missing = "403 Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)"
    assert restore(api, SAVED, token).exitstatus == f"unable to restore CT 110 - {missing}"
    assert not api.cluster.configs.exists(110)
    assert restore(api, SAVED.replace("unprivileged: 1\n", "").replace("net0", "#net0"), token).exitstatus == (
        "unable to restore CT 110 - 403 Permission check failed (/, Sys.Modify)"
    )


def test_a_privileged_restore_drops_the_features(api: Api) -> None:
    task = restore(api, unprivileged=0)
    assert task.exitstatus == "OK"
    assert "changing from unprivileged to privileged, skipping features" in task.log
    assert not {"features", "unprivileged"} & options(api).keys()


def test_features_in_the_call_need_it_to_say_unprivileged(api: Api) -> None:
    given = {"vmid": 110, "ostemplate": BACKUP, "restore": 1, "storage": "local-lvm", "features": "nesting=1"}
    refused = "Permission check failed (changing feature flags for privileged container is only allowed for root@pam)"
    assert api.reason("POST", CREATE, ROOT, **given) == refused


@pytest.mark.parametrize(
    ("saved", "error"),
    [
        (SAVED.replace(",size=1G", ""), "unable to detect disk size - please specify mp0 (size)"),
        (
            SAVED.replace("local-lvm:vm-100-disk-1", "/srv/shared"),
            "restoring 'mp0' to bind mount is only possible for root",
        ),
        (
            SAVED.replace("local-lvm:vm-100-disk-0", "/srv/root"),
            "restoring rootfs to bind mount is only possible by specifying -rootfs manually!",
        ),
        (
            SAVED.replace("rootfs:", "#rootfs:"),
            "rootfs configuration could not be recovered, please check and specify manually!",
        ),
    ],
)
def test_volumes_that_cannot_be_recovered_fail_the_restore(api: Api, saved: str, error: str) -> None:
    assert restore(api, saved).exitstatus == f"unable to restore CT 110 - {error}"
    assert not api.cluster.configs.exists(110)
    assert volumes(api) == {}


def test_raw_options_are_skipped_with_a_warning(api: Api) -> None:
    task = restore(api, SAVED + "lxc.mount.auto: proc\n")
    assert task.exitstatus == "WARNINGS: 1"
    begin = task.log.index("WARN: skipping custom lxc options, restore manually as root:")
    assert task.log[begin + 1 : begin + 4] == ["-" * 32, "lxc.mount.auto: proc", "-" * 32]
    assert api.cluster.configs.load(110, "pve").raw_lxc == []


def test_a_template_is_restored_as_a_template(api: Api) -> None:
    assert restore(api, SAVED + "template: 1\n").exitstatus == "OK"
    assert options(api)["template"] == 1
    assert sorted(volumes(api)) == ["base-110-disk-0", "base-110-disk-1"]


def test_force_overwrites_a_container_and_its_snapshots(api: Api) -> None:
    api.create(110, mp0="local-lvm:1,mp=/old")
    api.task("POST", "/nodes/pve/lxc/110/snapshot", snapname="before")
    assert restore(api, force=1).exitstatus == "OK"
    assert options(api)["rootfs"] == "local-lvm:vm-110-disk-2,size=2G"
    assert sorted(volumes(api)) == ["vm-110-disk-2", "vm-110-disk-3"]
    assert api.cluster.configs.load(110, "pve").snapshots == {}


def test_an_error_before_the_first_change_leaves_the_overwritten_container(api: Api) -> None:
    api.create(110)
    api.task("POST", "/nodes/pve/lxc/110/snapshot", snapname="before")
    before = api.cluster.configs.text(110, "pve")
    assert restore(api, SAVED.replace(",size=1G", ""), force=1).exitstatus != "OK"
    assert api.cluster.configs.text(110, "pve") == before


def test_a_later_error_destroys_the_overwritten_container(api: Api) -> None:
    api.create(110, mp0="local-lvm:1,mp=/old")
    api.create(111, mp0="local-lvm:vm-110-disk-1,mp=/old", start=1)
    api.settle()
    error = "lvremove 'pve/vm-110-disk-1' error:   Logical volume pve/vm-110-disk-1 contains a filesystem in use."
    assert restore(api, force=1).exitstatus == f"unable to restore CT 110 - {error}"
    assert not api.cluster.configs.exists(110)
    assert [name for name in volumes(api) if "-110-" in name] == ["vm-110-disk-1"]


def test_a_locked_or_running_container_is_not_overwritten(api: Api) -> None:
    api.create(110)
    given = {"vmid": 110, "ostemplate": BACKUP, "restore": 1, "storage": "local-lvm", "force": 1}
    config = api.cluster.configs.load(110, "pve")
    config.options["lock"] = "backup"
    api.cluster.configs.save(110, "pve", config)
    assert api.reason("POST", CREATE, ROOT, **given) == "unable to restore CT 110 - CT is locked (backup)"
    del config.options["lock"]
    api.cluster.configs.save(110, "pve", config)
    api.task("POST", "/nodes/pve/lxc/110/status/start")
    assert api.reason("POST", CREATE, ROOT, **given) == "can't overwrite running container"


def test_the_backup_privilege_is_enough_to_overwrite_the_own_container(api: Api) -> None:
    api.create(100)
    token = api.token_with(
        vms_100=("VM.Backup",),
        storage_local=("Datastore.AllocateSpace",),
        **{"storage_local-lvm": ("Datastore.AllocateSpace",)},
    )
    saved = SAVED.replace("net0", "#net0")
    assert restore(api, saved, token, vmid=100, force=1).exitstatus == "OK"
    config = api.cluster.configs.load(100, "pve")
    config.options["protection"] = 0
    api.cluster.configs.save(100, "pve", config)
    given = {"vmid": 100, "ostemplate": BACKUP, "restore": 1, "storage": "local-lvm", "force": 1, "unprivileged": 0}
    assert api.reason("POST", CREATE, token, **given) == "Permission check failed (/, Sys.Modify)"


def test_a_size_of_zero_is_a_directory_or_an_error(api: Api) -> None:
    assert api.create(110, rootfs="files:0").exitstatus == "OK"
    assert options(api)["rootfs"] == "files:110/subvol-110-disk-0.subvol,size=0T"
    failed = api.create(111, rootfs="local-lvm:0")
    error = "lvcreate 'pve/vm-111-disk-0' error:   Error during parsing of command line."
    assert failed.exitstatus == f"unable to create CT 111 - {error}"


def test_a_size_is_rounded_down_to_mebibytes_in_the_config(api: Api) -> None:
    assert api.create(110, rootfs="local-lvm:0.3").exitstatus == "OK"
    assert options(api)["rootfs"] == "local-lvm:vm-110-disk-0,size=307M"
    # LVM rounds the volume itself up to extents of 4 MiB.
    assert volumes(api) == {"vm-110-disk-0": 308}
