"""Snapshot, rollback, backup and restore of real containers do to files what Proxmox does to them."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from levels import slow_proof
from pvebox import unable_to_run
from pvebox.runtime.lxc import mmp
from pvebox.runtime.lxc.containers import LxcContainers
from pvebox.runtime.lxc.images import Images
from pvebox.runtime.lxc.names import Names
from sandbox.live.box import Box, host_things, left_behind, serve
from sandbox.live.pet_and_cattle import (
    CATTLE,
    PET,
    back_up,
    console,
    crash,
    inside,
    pet_and_cattle,
    remove,
    restore,
    roll_back,
    snapshot,
    start,
    stop,
    writing,
)

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(unable_to_run() is not None, reason=str(unable_to_run())),
]

WAIT: Final = 2.0
# Keeps a file of the root and one of the mount point equal, but for one step.
COUNT: Final = "n=$((n+1)); echo $n >/root/.n; mv /root/.n /root/n; echo $n >/mem/.n; mv /mem/.n /mem/n"
# Changes files and directories faster than tar reads them.
CHURN: Final = "echo more >>/mem/d/grow; touch /mem/d/x; rm /mem/d/x"
# A file with an owner, a mode, a user attribute and a capability.
MARKED: Final = """
echo kept >/mem/note; chown 1000:1001 /mem/note; chmod 4751 /mem/note; ln -sf note /mem/link
python3 - <<END
import os
os.setxattr("/mem/note", "user.k", b"v")
os.setxattr("/mem/note", "security.capability", bytes.fromhex("0100000200040000" + "00" * 12))
END
"""
SHOW: Final = """
stat -c "%u:%g %a %s" /mem/note; cat /mem/note; readlink /mem/link
python3 -c 'import os; print(sorted((n, os.getxattr("/mem/note", n).hex()) for n in os.listxattr("/mem/note")))'
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    before = host_things()
    with pet_and_cattle(tmp_path_factory.mktemp("live"), mmp_wait=WAIT) as made:
        # A smaller root is packed faster.
        inside(made, CATTLE, "rm -rf /usr/share /usr/lib/*/perl* /usr/lib/udev /var/lib/dpkg")
        yield made
    assert left_behind(before, made.state) == {}


def image(box: Box, name: str) -> Path:
    return box.state / f"volumes/pve/local-lvm/{name}.img"


def archived(archive: Path, name: str) -> str:
    return subprocess.run(["tar", "-xOf", archive, name], capture_output=True, text=True, check=True).stdout


def test_a_rollback_of_a_running_container_brings_back_files_also_of_foreign_volumes(box: Box) -> None:
    inside(box, CATTLE, "echo one >/root/f; echo one >/mem/f; echo old >/etc/motd; sync")
    assert snapshot(box, CATTLE, "one") == "OK"
    inside(box, CATTLE, "echo two >/root/f; echo two >/mem/f; rm /etc/motd; touch /mem/new")
    assert roll_back(box, CATTLE, "one") == "OK"
    # Both volumes were mounted when they were copied.
    assert start(box, CATTLE) > 2 * WAIT
    assert inside(box, CATTLE, "cat /root/f /mem/f /etc/motd; ls /mem") == "one\none\nold\nf\nlost+found\n"


def test_a_rollback_to_a_snapshot_of_a_stopped_container_starts_at_once(box: Box) -> None:
    inside(box, CATTLE, "echo three >/root/f")
    stop(box, CATTLE)
    assert snapshot(box, CATTLE, "clean") == "OK"
    assert roll_back(box, CATTLE, "clean") == "OK"
    assert start(box, CATTLE) < WAIT
    assert inside(box, CATTLE, "cat /root/f") == "three\n"


def test_a_rollback_of_the_pet_under_the_running_cattle_leaves_lock_and_memory(box: Box) -> None:
    assert snapshot(box, PET, "live") == "OK"
    assert mmp.is_in_use(image(box, "snap_vm-500-disk-1_live"))
    inside(box, CATTLE, "echo newest >/mem/f")
    lv = "pve/vm-500-disk-1"
    assert roll_back(box, PET, "live") == f"lvremove '{lv}' error:   Logical volume {lv} contains a filesystem in use."
    assert box.call("GET", f"/nodes/pve/lxc/{PET}/config")["lock"] == "rollback"
    assert inside(box, CATTLE, "cat /mem/f; echo alive >/mem/f; cat /mem/f") == "newest\nalive\n"
    console(box, "pct", "unlock", str(PET))
    stop(box, CATTLE)
    assert roll_back(box, PET, "live") == "OK"
    assert start(box, CATTLE) > WAIT
    assert inside(box, CATTLE, "cat /mem/f") == "one\n"


def test_a_frozen_container_is_copied_at_one_moment(box: Box) -> None:
    with writing(box, CATTLE, COUNT):
        assert snapshot(box, CATTLE, "counted") == "OK"
    assert roll_back(box, CATTLE, "counted") == "OK"
    start(box, CATTLE)
    root, memory = map(int, inside(box, CATTLE, "cat /root/n /mem/n").split())
    assert 0 < memory <= root <= memory + 1


def test_a_container_does_not_stay_frozen_after_a_failure(box: Box) -> None:
    names = Names(box.state)
    containers = LxcContainers(names, Images(names), "", lambda _vmid: None)

    def state() -> str:
        info = ["lxc-info", "-P", str(names.lxc_path), "-n", names.container(CATTLE), "-sH"]
        return subprocess.run(info, capture_output=True, text=True, check=True).stdout.strip()

    try:
        with contextlib.suppress(KeyError), containers.frozen(CATTLE):
            assert state() == "FROZEN"
            raise KeyError
        assert state() == "RUNNING"
    finally:
        containers.close()


@pytest.mark.parametrize("mode", ["snapshot", "suspend", "stop"])
def test_a_backup_of_a_running_container_is_of_one_moment(box: Box, mode: str) -> None:
    inside(box, CATTLE, f"{MARKED} mkdir -p /var/tmp/d /mem/tmp; touch /tmp/x /var/tmp/d/x /var/run/x.pid /mem/tmp/x")
    with writing(box, CATTLE, COUNT):
        status, archives, log = back_up(box, CATTLE, mode)
        assert status == "OK"
        assert inside(box, CATTLE, "hostname") == "cattle\n"
    assert any(line.startswith("INFO: Total bytes written: ") for line in log)
    (archive,) = archives
    listed = subprocess.run(["tar", "--numeric-owner", "-tvf", archive], capture_output=True, text=True, check=True)
    names = [line.split(None, 5)[5] for line in listed.stdout.splitlines()]
    assert names[:3] == ["./etc/vzdump/pct.conf", "./etc/vzdump/pct.fw", "./"]
    left_out = ("./lost+found/", "./mem/lost+found/", "./tmp/x", "./var/tmp/d/", "./var/run/x.pid")
    assert not set(left_out) & set(names)
    assert "./mem/tmp/x" in names
    assert "-rwsr-x--x 1000/1001" in listed.stdout
    assert "mp0: local-lvm:vm-500-disk-1" in archived(archive, "./etc/vzdump/pct.conf")
    root, memory = int(archived(archive, "./root/n")), int(archived(archive, "./mem/n"))
    # A shutdown unmounts /mem before it ends the writer.
    assert 0 < memory <= root <= (memory + 1 if mode != "stop" else root)
    assert not list((box.state / "volumes").rglob("*vzdump*"))


def test_a_restored_container_has_the_files_of_the_backup_as_they_were(box: Box) -> None:
    inside(box, CATTLE, MARKED)
    shown = inside(box, CATTLE, SHOW)
    _, (archive,), _ = back_up(box, CATTLE, "snapshot")
    restore(box, 520, archive, storage="local-lvm")
    start(box, 520)
    assert inside(box, 520, SHOW) == shown
    assert "user.k" in shown
    assert "security.capability" in shown
    assert inside(box, 520, "ls /etc/vzdump") == "pct.fw\n"
    remove(box, 520)


def test_a_backup_of_the_pet_fails_while_the_cattle_changes_its_files(box: Box) -> None:
    inside(box, CATTLE, "mkdir -p /mem/d; head -c 80000000 /dev/zero >/mem/d/grow")
    with writing(box, CATTLE, CHURN):
        # tar may be so fast that no file changes while it is read.
        for _ in range(5):
            status, archives, log = back_up(box, PET, "snapshot")
            if status != "OK":
                break
    assert (status, archives) == ("job errors", [])
    assert "INFO: tar: ./mem/d/grow: file changed as we read it" in log
    (error,) = [line for line in log if line.startswith("ERROR: ")]
    assert error.startswith(
        f"ERROR: Backup of VM {PET} failed - command 'set -o pipefail && lxc-usernsexec -m u:0:100000"
    )
    assert error.endswith(".tar.dat' failed: exit code 1")
    assert not list((box.state / "files").rglob("*.dat"))
    assert "lock" not in box.call("GET", f"/nodes/pve/lxc/{PET}/config")
    inside(box, CATTLE, "rm -r /mem/d")


def test_a_restore_keeps_files_of_existing_volumes_and_fills_the_root_without_them(box: Box) -> None:
    inside(box, CATTLE, "echo old >/mem/changed; echo old >/mem/lost")
    stop(box, CATTLE)
    _, (archive,), _ = back_up(box, CATTLE, "stop")
    start(box, CATTLE)
    inside(box, CATTLE, "echo new >/mem/changed; rm /mem/lost; echo extra >/mem/extra; ln -s /root /mem/away")
    restore(box, 521, archive, rootfs="local-lvm:2", mp0="local-lvm:vm-500-disk-1,mp=/mem")
    assert inside(box, CATTLE, "cd /mem; cat changed lost extra; readlink away") == "new\nold\nextra\n/root\n"
    remove(box, 521)
    restore(box, 522, archive, rootfs="local-lvm:2")
    start(box, 522)
    assert inside(box, 522, "cat /mem/changed; grep -c ' /mem ' /proc/mounts || true") == "old\n0\n"
    remove(box, 522)


def test_a_power_cut_leaves_the_volumes_dirty_and_keeps_what_was_written(box: Box) -> None:
    inside(box, CATTLE, "echo kept >/mem/synced; echo kept >/root/synced; sync")
    crash(box)
    assert mmp.is_in_use(image(box, "vm-500-disk-1"))
    assert mmp.is_in_use(image(box, "vm-505-disk-0"))
    assert start(box, CATTLE) > 2 * WAIT
    assert inside(box, CATTLE, "cat /mem/synced /root/synced") == "kept\nkept\n"


def test_a_server_killed_during_a_snapshot_does_not_leave_the_container_frozen(box: Box) -> None:
    names = Names(box.state)
    subprocess.run(["lxc-freeze", "-P", names.lxc_path, "-n", names.container(CATTLE)], check=True)
    subprocess.run(["fsfreeze", "--freeze", names.mounts / "pve/local-lvm/vm-500-disk-1"], check=True)
    box.server.kill()
    box.server.wait(10)
    box.server, box.ready = serve(box.state, mmp_wait=WAIT)
    box.client.base_url = f"{box.ready['url']}/api2/json"
    assert inside(box, CATTLE, "echo alive >/mem/f; cat /mem/f") == "alive\n"


def test_a_destroyed_cattle_leaves_its_snapshot_of_the_pets_volume(box: Box) -> None:
    assert snapshot(box, CATTLE, "leak") == "OK"
    remove(box, CATTLE)
    assert image(box, "snap_vm-500-disk-1_leak").exists()
    assert not image(box, "snap_vm-505-disk-0_leak").exists()
    assert "already exists" in snapshot(box, PET, "leak")
    remove(box, PET)
    assert not list((box.state / "volumes/pve/local-lvm").glob("*vm-500-*"))


@slow_proof
def test_the_kernel_waits_before_it_mounts_a_volume_that_was_copied_while_mounted(tmp_path: Path) -> None:
    with pet_and_cattle(tmp_path, mmp_wait=None) as box:
        assert snapshot(box, PET, "live") == "OK"
        stop(box, CATTLE)
        assert roll_back(box, PET, "live") == "OK"
        upid = box.call("POST", f"/nodes/pve/lxc/{CATTLE}/status/start")
        began = time.monotonic()
        assert box.create(600) == "OK"
        assert time.monotonic() - began < 20, "other volumes had to wait too"
        assert box.ended(upid)["exitstatus"] == "OK"
        assert time.monotonic() - began > 40
        stop(box, CATTLE)
        assert start(box, CATTLE) < 5
