"""Backup jobs: rights, guests, modes, one job at a time, and what a failed or aborted job leaves."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pvebox.api.errors import OperationError
from pvebox.cluster.tasks import Task
from pvebox.guests.storage import Storage, StorageType
from pvebox.runtime.contract import ArchiveOrder, Say
from pvebox.runtime.memory import MemoryRuntime
from sandbox.inprocess import Api

Json = Any
ROOT = "root@pam!sandbox"
VZDUMP = "/nodes/pve/vzdump"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path / "state")
    assert made.create(100, hostname="pet", mp0="local-lvm:1,mp=/data,backup=1").exitstatus == "OK"
    yield made
    made.settle()


def dump(api: Api, token: str = ROOT, /, **params: Json) -> Task:
    """Start a backup job and return the finished task."""
    answer = api.ask("POST", VZDUMP, token, **params)
    assert answer.status_code == 200, answer.text
    return api.cluster.tasks.wait(answer.json()["data"], 10)


def files(api: Api) -> list[str]:
    """Return the files of backups, with T for their times."""
    names = api.cluster.runtime.files("pve", "local")
    found = [name.removeprefix("backup/") for name in names if name.startswith("backup/")]
    return sorted(re.sub(r"\d{4}_\d\d_\d\d-\d\d_\d\d_\d\d", "T", name) for name in found)


def replace_archive(monkeypatch: pytest.MonkeyPatch, api: Api, pack: Callable[[ArchiveOrder, Task, Say], int]) -> None:
    assert isinstance(api.cluster.runtime, MemoryRuntime)
    monkeypatch.setattr(api.cluster.runtime.containers, "archive", pack)


class Held:
    """A packing of an archive that takes until it is released or the task is aborted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, api: Api) -> None:
        self.packing, self.released = threading.Event(), threading.Event()
        replace_archive(monkeypatch, api, self._pack)

    def _pack(self, order: ArchiveOrder, task: Task, say: Say) -> int:
        self.packing.set()
        while not self.released.wait(0.01):
            task.check_aborted()
        return 5000


def test_a_missing_privilege_on_the_guest_fails_the_task_and_not_the_call(api: Api) -> None:
    token = api.token_with(storage_local=("Datastore.AllocateSpace",))
    task = dump(api, token, vmid=100, storage="local")
    assert task.exitstatus == "403 Permission check failed (/vms/100, VM.Backup)"
    assert task.log[0].startswith("INFO: starting new backup job: vzdump 100 ")
    assert files(api) == []


def test_all_guests_are_those_with_the_privilege_and_without_the_excluded_ones(api: Api) -> None:
    api.create(101)
    api.create(102)
    token = api.token_with(storage_local=("Datastore.AllocateSpace",), vms_100=("VM.Backup",), vms_101=("VM.Backup",))
    assert dump(api, token, all=1, storage="local").upid.id == ""
    assert files(api) == [f"vzdump-lxc-{vmid}-T.{kind}" for vmid in (100, 101) for kind in ("log", "tar")]
    dump(api, exclude="100,102")
    assert files(api).count("vzdump-lxc-101-T.tar") == 2


def test_a_pool_is_backed_up_and_an_unknown_pool_is_an_error(api: Api) -> None:
    api.cluster.access.join_pool(100, "paddock")
    api.create(101)
    assert dump(api, pool="paddock", compress="gzip").exitstatus == "OK"
    assert files(api) == ["vzdump-lxc-100-T.log", "vzdump-lxc-100-T.tar.gz"]
    assert api.reason("POST", VZDUMP, ROOT, pool="nosuch") == "pool 'nosuch' does not exist"


@pytest.mark.parametrize(
    ("params", "errors"),
    [
        ({}, {"vmid": "property is missing"}),
        ({"vmid": 100, "all": 1}, {"all": "option conflicts with option 'vmid'"}),
        ({"vmid": 100, "exclude": 101}, {"exclude": "option conflicts with option 'vmid'"}),
        ({"vmid": 100, "pool": "paddock"}, {"pool": "option conflicts with option 'vmid'"}),
        ({"vmid": 100, "script": "/bin/true"}, {"script": "Only root may set this option."}),
        ({"vmid": 100, "dumpdir": "/mnt"}, {"dumpdir": "Only root may set this option."}),
        ({"vmid": 100, "tmpdir": "/mnt"}, {"tmpdir": "Only root may set this option."}),
        ({"vmid": 100, "stdout": 1}, {"stdout": "option is only allowed on the command line interface."}),
        ({"vmid": 100, "protected": 1}, {"storage": "missing property required by 'protected'"}),
        ({"vmid": 100, "notes-template": "a\nb", "storage": "local"}, {"notes-template": "contains a line feed"}),
        (
            {"vmid": 100, "notes-template": r"\t {{x}} {{vmid}}", "storage": "local"},
            {"notes-template": "found unknown: escape sequence '\\t' at char 0, variable 'x' at char 7\n"},
        ),
        (
            {"vmid": 100, "prune-backups": "keep-all=1,keep-last=2"},
            {"prune-backups": "invalid format - keep-all cannot be set together with other options.\n"},
        ),
    ],
)
def test_parameters_that_do_not_fit_are_rejected(api: Api, params: dict[str, Json], errors: dict[str, str]) -> None:
    answer = api.ask("POST", VZDUMP, ROOT, **params)
    assert (answer.status_code, answer.json()["errors"]) == (400, errors)


@pytest.mark.parametrize(
    ("params", "missing"),
    [
        ({"bwlimit": 1}, "/, Sys.Modify"),
        ({"ionice": 1}, "/, Sys.Modify"),
        ({"performance": "max-workers=2"}, "/, Sys.Modify"),
        ({"prune-backups": "keep-last=1"}, "/storage/local, Datastore.Allocate"),
        ({"stop": 1}, "/nodes/pve, Sys.Modify"),
        ({"storage": "local-lvm"}, "/storage/local-lvm, Datastore.AllocateSpace"),
    ],
)
def test_some_parameters_need_more_privileges(api: Api, params: dict[str, Json], missing: str) -> None:
    token = api.token_with(storage_local=("Datastore.AllocateSpace",), vms_100=("VM.Backup",))
    assert api.reason("POST", VZDUMP, token, vmid=100, **params) == f"Permission check failed ({missing})"


def test_several_guests_are_one_job_and_one_failure_does_not_stop_it(api: Api) -> None:
    api.create(101)
    config = api.cluster.configs.load(100, "pve")
    config.options["lock"] = "snapshot"
    api.cluster.configs.save(100, "pve", config)
    task = dump(api, vmid="101,100,599")
    assert (task.upid.id, task.exitstatus) == ("", "job errors")
    errors = [line for line in task.log if line.startswith("ERROR")]
    assert errors == [
        "ERROR: Backup of VM 100 failed - CT is locked (snapshot)",
        "ERROR: Backup of VM 599 failed - unable to find VM '599'",
    ]
    assert files(api) == ["vzdump-lxc-100-T.log", "vzdump-lxc-101-T.log", "vzdump-lxc-101-T.tar"]
    assert api.cluster.configs.load(100, "pve").text("lock") == "snapshot"


def test_the_storage_of_a_job_must_exist_and_hold_backups(api: Api) -> None:
    assert dump(api, vmid=100, storage="nosuch").exitstatus == (
        "could not activate storage 'nosuch': storage 'nosuch' does not exist"
        " could not get storage information for 'nosuch': storage 'nosuch' does not exist"
    )


def test_a_guest_of_another_node_is_skipped_without_a_task(tmp_path: Path) -> None:
    api = Api(tmp_path / "state", nodes=("pve", "pve2"))
    api.create(100)
    assert api.data("POST", "/nodes/pve2/vzdump", vmid=100, storage="local") == "OK"
    assert not [task for task in api.cluster.tasks.newest_first() if task.upid.type == "vzdump"]


def test_the_config_in_a_backup_is_the_current_one(api: Api) -> None:
    api.task("POST", "/nodes/pve/lxc/100/snapshot", snapname="before")
    dump(api, vmid=100, compress="zstd")
    (backup,) = api.data("GET", "/nodes/pve/storage/local/content", content="backup")
    text = api.data("GET", f"{VZDUMP}/extractconfig", volume=backup["volid"])
    assert "hostname: pet\n" in text
    assert not re.search(r"^(lock|parent|\[)", text, re.MULTILINE)
    gone = backup["volid"].replace("100", "101")
    assert api.reason("GET", f"{VZDUMP}/extractconfig", volume=gone) == f"volume '{gone}' does not exist"


def test_the_log_of_a_backup_is_beside_it_with_times(api: Api) -> None:
    task = dump(api, vmid=100)
    (name,) = [name for name in api.cluster.runtime.files("pve", "local") if name.endswith(".log")]
    text = api.cluster.runtime.read_text("pve", "local", name) or ""
    stamped = [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line) for line in text.splitlines()]
    # The job's own lines and the times of the backup are only in the task's log.
    only_in_task = r"INFO: (starting new|Backup (started|finished|job))|TASK"
    assert stamped == [line for line in task.log if not re.match(only_in_task, line)]


def test_a_failed_archive_leaves_only_its_log(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(order: ArchiveOrder, task: Task, say: Say) -> int:
        say("tar: ./data/grow: file changed as we read it")
        raise OperationError("command 'tar' failed: exit code 1")

    replace_archive(monkeypatch, api, fail)
    task = dump(api, vmid=100, storage="local", protected=1)
    assert task.exitstatus == "job errors"
    ending = [re.sub(r" at \d.*", "", line) for line in task.log[-5:]]
    assert ending == [
        "INFO: tar: ./data/grow: file changed as we read it",
        "ERROR: Backup of VM 100 failed - command 'tar' failed: exit code 1",
        "INFO: Failed",
        "INFO: Backup job finished with errors",
        "TASK ERROR: job errors",
    ]
    assert files(api) == ["vzdump-lxc-100-T.log"]
    assert api.cluster.configs.load(100, "pve").text("lock") is None


def test_a_volume_without_a_filesystem_or_without_an_image_fails_the_backup(api: Api) -> None:
    volid = api.data("POST", "/nodes/pve/storage/local-lvm/content", vmid=100, filename="vm-100-raw", size="1G")
    api.data("PUT", "/nodes/pve/lxc/100/config", mp1=f"{volid},mp=/raw,backup=1")
    failed = "ERROR: Backup of VM 100 failed - command 'mount /dev/dm-0 /mnt/vzsnap0//raw' failed: exit code 32"
    assert failed in dump(api, vmid=100).log
    (volume,) = [v for v in api.cluster.runtime.volumes.on("pve", "local-lvm") if v.ref.name == "vm-100-raw"]
    api.cluster.runtime.volumes.remove(volume.ref)
    assert "ERROR: Backup of VM 100 failed - no such logical volume pve/vm-100-raw" in dump(api, vmid=100).log


def test_a_second_job_waits_for_the_first(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.create(101)
    held = Held(monkeypatch, api)
    first = api.data("POST", VZDUMP, vmid=100, storage="local")
    assert held.packing.wait(5)
    assert api.reason("PUT", "/nodes/pve/lxc/100/config", cores=1) == "CT is locked (backup)"
    at_once = dump(api, vmid=101, lockwait=0)
    assert at_once.log[0] == "ERROR: can't acquire lock '/var/run/vzdump.lock' (wait = 0)"
    assert at_once.exitstatus == "unexpected status"
    second = api.data("POST", VZDUMP, vmid=101, storage="local")
    waiting = api.cluster.tasks.find(second)
    assert waiting is not None
    assert not waiting.ended.wait(0.2)
    assert waiting.log == ["INFO: trying to get global lock - waiting..."]
    held.released.set()
    assert api.cluster.tasks.wait(first).exitstatus == "OK"
    assert api.cluster.tasks.wait(second).log[1] == "INFO: got global lock"
    assert waiting.exitstatus == "OK"


def test_an_aborted_job_unlocks_the_guest_and_leaves_only_its_log(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.create(101)
    held = Held(monkeypatch, api)
    upid = api.data("POST", VZDUMP, vmid="100,101", storage="local")
    assert held.packing.wait(5)
    api.data("DELETE", f"/nodes/pve/tasks/{upid}")
    task = api.cluster.tasks.wait(upid)
    assert task.exitstatus == "job errors"
    assert not any("VM 101" in line for line in task.log)
    assert files(api) == ["vzdump-lxc-100-T.log"]
    assert api.cluster.configs.load(100, "pve").text("lock") is None


def test_stop_ends_the_running_job(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, api)
    upid = api.data("POST", VZDUMP, vmid=100, storage="local")
    assert held.packing.wait(5)
    assert api.ask("POST", VZDUMP, ROOT, stop=1).json() == {"data": "OK"}
    assert api.cluster.tasks.wait(upid).exitstatus == "job errors"


def test_a_snapshot_of_a_crashed_backup_is_removed_by_the_next_one(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.task("POST", "/nodes/pve/lxc/100/status/start")
    with monkeypatch.context() as during:
        held = Held(during, api)
        upid = api.data("POST", VZDUMP, vmid=100, storage="local")
        assert held.packing.wait(5)
        names = [entry["name"] for entry in api.data("GET", "/nodes/pve/lxc/100/snapshot")]
        assert "vzdump" in names
        task = api.cluster.tasks.find(upid)
        assert task is not None
        task.crash()
        task.ended.wait(5)
    config = api.cluster.configs.load(100, "pve")
    assert (config.text("lock"), config.text("parent")) == ("backup", "vzdump")
    del config.options["lock"]
    api.cluster.configs.save(100, "pve", config)
    task = dump(api, vmid=100)
    assert task.exitstatus == "OK"
    assert "INFO: found old vzdump snapshot (force removal)" in task.log
    assert api.cluster.configs.load(100, "pve").snapshots == {}
    assert not [v for v in api.cluster.runtime.volumes.on("pve", "local-lvm") if v.ref.name.startswith("snap_")]


def test_the_mode_stop_restarts_a_running_container(api: Api) -> None:
    api.task("POST", "/nodes/pve/lxc/100/status/start")
    task = dump(api, vmid=100, mode="stop")
    assert "INFO: restarting vm" in task.log
    assert api.cluster.runtime.containers.running(100)


def test_host_directories_are_never_in_a_backup(api: Api) -> None:
    config = api.cluster.configs.load(100, "pve")
    config.options["mp1"] = "/srv/shared,mp=/shared,backup=1"
    api.cluster.configs.save(100, "pve", config)
    assert "INFO: excluding bind mount point mp1 ('/shared') from backup (not a volume)" in dump(api, vmid=100).log


def test_a_job_prunes_older_backups_of_its_guests(api: Api) -> None:
    api.create(101)
    for vmid in (100, 100, 101):
        dump(api, vmid=vmid)
    task = dump(api, vmid=100, **{"prune-backups": "keep-last=2"})
    assert "INFO: prune older backups with retention: keep-last=2" in task.log
    assert "INFO: pruned 1 backup(s) not covered by keep-retention policy" in task.log
    assert files(api) == [
        *["vzdump-lxc-100-T.log"] * 2,
        *["vzdump-lxc-100-T.tar"] * 2,
        *("vzdump-lxc-101-T.log", "vzdump-lxc-101-T.tar"),
    ]


def test_without_removal_the_retention_limits_the_number_of_backups(api: Api) -> None:
    local = api.cluster.storages["local"]
    api.cluster.storages["local"] = Storage(
        "local", StorageType.DIR, local.content, settings={"prune-backups": "keep-last=1", "max-protected-backups": "1"}
    )
    assert dump(api, vmid=100, remove=0).exitstatus == "OK"
    assert (
        "ERROR: Backup of VM 100 failed - There is a max backup limit of 1 enforced by the target storage or the"
        " vzdump parameters. Either increase the limit or delete old backups."
    ) in dump(api, vmid=100, remove=0).log
    assert dump(api, vmid=100, storage="local", protected=1).exitstatus == "OK"
    limited = "The number of protected backups per guest is limited to 1 on storage 'local'"
    assert f"ERROR: Backup of VM 100 failed - {limited}" in dump(api, vmid=100, storage="local", protected=1).log


def test_notes_are_filled_from_the_template(api: Api) -> None:
    dump(api, vmid=100, storage="local", **{"notes-template": r"{{guestname}} on {{node}}\nof {{cluster}} \\ {{vmid}}"})
    (backup,) = api.data("GET", "/nodes/pve/storage/local/content", content="backup")
    assert backup["notes"] == "pet on pve"
    facts = api.data("GET", f"/nodes/pve/storage/local/content/{backup['volid']}")
    assert facts["notes"] == "pet on pve\nof standalone node \\ 100"


def test_the_defaults_show_paths_only_to_auditors(api: Api) -> None:
    token = api.token_with(storage_local=("Datastore.Audit",))
    shown = api.ask("GET", f"{VZDUMP}/defaults", token).json()["data"]
    assert (shown["storage"], shown["compress"], shown["prune-backups"]) == ("local", "0", "keep-all=1")
    assert "dumpdir" not in shown
    more = api.ask("GET", f"{VZDUMP}/defaults", ROOT).json()["data"]
    assert {key: more[key] for key in more.keys() - shown.keys()} == {"dumpdir": "/var/lib/vz/dump", "ionice": 7}
    assert api.reason("GET", f"{VZDUMP}/defaults", ROOT, storage="local-lvm") == (
        "can't use storage 'local-lvm' for backups - wrong content type"
    )
