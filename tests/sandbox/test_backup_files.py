"""The backups on a storage: listing, notes, protection, removal and pruning."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pvebox.guests.storage import Storage, StorageType
from sandbox.inprocess import Api

Json = Any
ROOT = "root@pam!sandbox"
CONTENT = "/nodes/pve/storage/local/content"
PRUNE = "/nodes/pve/storage/local/prunebackups"


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path / "state")


def put(api: Api, *names: str, notes: bool = False) -> None:
    """Put backups on the storage `local`, with their logs."""
    for name in names:
        api.cluster.runtime.note_file("pve", "local", f"backup/{name}", 5000, "hostname: pet\n")
        api.cluster.runtime.write_text("pve", "local", f"backup/{name.split('.', 1)[0]}.log", "INFO\n")
        if notes:
            api.cluster.runtime.write_text("pve", "local", f"backup/{name}.notes", "first\nsecond")


def at(when: str, vmid: int = 100) -> str:
    """Return the name of a backup of a time such as `2026-11-15 13:08`."""
    stamp = when.replace("-", "_").replace(" ", "-").replace(":", "_")
    return f"vzdump-lxc-{vmid}-{stamp}_00.tar.zst"


def left(api: Api) -> list[str]:
    return sorted(name.removeprefix("backup/") for name in api.cluster.runtime.files("pve", "local") if "dump" in name)


def kept(api: Api, retention: str, whens: Iterable[str]) -> list[str]:
    """Return the times of the backups that a retention keeps."""
    names = {at(when): when for when in whens}
    put(api, *names)
    entries = api.data("GET", PRUNE, **{"prune-backups": retention, "vmid": 100})
    marks = {entry["volid"].rpartition("/")[2]: entry["mark"] for entry in entries}
    assert set(marks.values()) <= {"keep", "remove"}
    return sorted(names[name] for name, mark in marks.items() if mark == "keep")


DAYS = ("2026-11-01 08:00", "2026-11-01 09:10", "2026-11-01 09:50", "2026-11-02 08:00", "2026-11-09 08:00")


@pytest.mark.parametrize(
    ("retention", "wanted"),
    [
        ("keep-last=2", DAYS[3:]),
        ("keep-last=9", DAYS),
        ("keep-all=1", DAYS),
        ("keep-last=0", DAYS),
        ("keep-hourly=4", (DAYS[0], *DAYS[2:])),
        ("keep-daily=9", DAYS[2:]),
        ("keep-daily=1,keep-last=1", DAYS[3:]),
        # The first of November is a Sunday: the last day of its ISO week.
        ("keep-weekly=3", DAYS[2:]),
        ("keep-weekly=1", DAYS[4:]),
        ("keep-monthly=2", DAYS[4:]),
        # An option does not count the periods of which an earlier option keeps a backup.
        ("keep-last=1,keep-hourly=1,keep-monthly=1", DAYS[3:]),
    ],
)
def test_a_retention_keeps_the_newest_backup_of_each_period(api: Api, retention: str, wanted: tuple[str, ...]) -> None:
    assert kept(api, retention, DAYS) == list(wanted)


def test_years_and_weeks_are_those_of_the_calendar(api: Api) -> None:
    # 2024-12-30 and 2025-01-02 are in the same ISO week, in different years.
    whens = ("2023-05-01 08:00", "2024-12-30 08:00", "2025-01-02 08:00")
    assert kept(api, "keep-yearly=2", whens) == list(whens[1:])
    assert kept(api, "keep-weekly=2", whens) == [whens[0], whens[2]]


def test_each_guest_is_pruned_apart_and_protected_and_renamed_backups_stay(api: Api) -> None:
    put(api, *(at(when) for when in DAYS), at(DAYS[0], 101), "vzdump-lxc-100-mine.tar.zst", "other.tar")
    api.cluster.runtime.write_text("pve", "local", f"backup/{at(DAYS[4])}.protected", "")
    entries = api.data("GET", PRUNE, **{"prune-backups": "keep-last=1"})
    marks = {entry["volid"].removeprefix("local:backup/"): entry["mark"] for entry in entries}
    assert marks == {
        **{at(when): "remove" for when in DAYS[:3]},
        at(DAYS[3]): "keep",
        at(DAYS[4]): "protected",
        at(DAYS[0], 101): "keep",
        "vzdump-lxc-100-mine.tar.zst": "renamed",
        "other.tar": "renamed",
    }
    assert [entry["type"] for entry in entries if "other" in entry["volid"]] == ["unknown"]
    assert api.data("GET", PRUNE, **{"prune-backups": "keep-last=1", "type": "qemu"}) == []
    upid = api.ask("DELETE", PRUNE, ROOT, **{"prune-backups": "keep-last=1"}).json()["data"]
    task = api.cluster.tasks.wait(upid)
    assert (task.upid.type, task.upid.id, task.exitstatus) == ("prunebackups", "local", "OK")
    assert task.log[:-1] == [f"removing backup 'local:backup/{at(when)}'" for when in DAYS[:3]]
    gone = {at(when).split(".", 1)[0] for when in DAYS[:3]}
    assert not [name for name in left(api) if name.split(".", 1)[0] in gone]


def test_pruning_needs_a_retention_and_a_storage_for_backups(api: Api) -> None:
    assert api.reason("GET", PRUNE) == "no prune-backups options configured for storage 'local'"
    local = api.cluster.storages["local"]
    api.cluster.storages["local"] = Storage(
        "local", StorageType.DIR, local.content, settings={"prune-backups": "keep-last=1"}
    )
    put(api, at(DAYS[0]), at(DAYS[1]))
    assert [entry["mark"] for entry in api.data("GET", PRUNE)] == ["remove", "keep"]
    elsewhere = PRUNE.replace("local", "local-lvm")
    assert api.reason("GET", elsewhere) == "storage 'local-lvm' does not support backups"
    upid = api.ask("DELETE", elsewhere, ROOT).json()["data"]
    assert api.cluster.tasks.wait(upid).exitstatus == "storage 'local-lvm' does not support backups"


def test_a_list_has_the_backups_of_guests_with_the_privilege_only(api: Api) -> None:
    put(api, at(DAYS[0]), at(DAYS[0], 101), "other.tar", notes=True)
    token = api.token_with(storage_local=("Datastore.AllocateSpace",), vms_101=("VM.Backup",))
    (seen,) = api.ask("GET", CONTENT, token, content="backup").json()["data"]
    assert seen == {
        "volid": f"local:backup/{at(DAYS[0], 101)}",
        "vmid": 101,
        "format": "tar.zst",
        "subtype": "lxc",
        "content": "backup",
        "size": 5000,
        "ctime": int(time.mktime((2026, 11, 1, 8, 0, 0, 0, 0, -1))),
        "notes": "first",
    }
    assert len(api.ask("GET", CONTENT, ROOT, content="backup").json()["data"]) == 3


def test_notes_and_protection_change_by_put(api: Api) -> None:
    name = at(DAYS[0])
    volume = f"{CONTENT}/backup/{name}"
    put(api, name)
    assert api.data("GET", volume) == {
        **{"path": f"/var/lib/vz/dump/{name}", "format": "raw", "size": 5120, "used": 8192},
        **{"notes": "", "protected": 0},
    }
    assert api.data("PUT", volume, notes="a\nb", protected=1) is None
    assert {key: api.data("GET", volume)[key] for key in ("notes", "protected")} == {"notes": "a\nb", "protected": 1}
    api.data("PUT", volume, notes="", protected=0)
    assert [name for name in left(api) if name.endswith((".notes", ".protected"))] == []


def test_a_guest_has_five_protected_backups_unless_an_administrator_protects_more(api: Api) -> None:
    names = [at(f"2026-11-0{day} 08:00") for day in range(1, 8)]
    put(api, *names)
    token = api.token_with(storage_local=("Datastore.AllocateSpace",), vms_100=("VM.Backup",))
    reasons = [api.reason("PUT", f"{CONTENT}/backup/{name}", token, protected=1) for name in names[:6]]
    limited = "The number of protected backups per guest is limited to 5 on storage 'local'"
    assert reasons == [*["OK"] * 5, limited]
    assert api.reason("PUT", f"{CONTENT}/backup/{names[6]}", ROOT, protected=1) == "OK"


def test_only_backups_have_notes_and_protection(api: Api) -> None:
    template = f"{CONTENT}/vztmpl/debian-12-standard_12.12-1_amd64.tar.zst"
    assert api.reason("PUT", template, ROOT, notes="x") == "only backups can have notes"
    assert api.reason("PUT", template, ROOT, protected=1) == "only backups support attribute 'protected'"
    disk = "/nodes/pve/storage/local-lvm/content/vm-100-disk-0"
    assert api.reason("PUT", disk, ROOT, protected=1) == (
        "attribute 'protected' is not supported for storage type 'lvmthin'"
    )


def test_a_protected_backup_is_not_removed_and_another_one_goes_with_its_files(api: Api) -> None:
    first, second = at(DAYS[0]), at(DAYS[1])
    put(api, first, second, notes=True)
    api.data("PUT", f"{CONTENT}/backup/{first}", protected=1)
    failed = api.task("DELETE", f"{CONTENT}/backup/{first}")
    assert failed.exitstatus == f"cannot remove protected volume 'backup/{first}' on 'local'"
    assert api.reason("DELETE", f"{CONTENT}/backup/{first}", delay=5) == failed.exitstatus
    assert api.data("DELETE", f"{CONTENT}/backup/{second}", delay=5) is None
    stem = first.split(".", 1)[0]
    assert left(api) == [f"{stem}.log", first, f"{first}.notes", f"{first}.protected"]
    again = api.task("DELETE", f"{CONTENT}/backup/{second}")
    assert again.exitstatus == "OK"
    assert again.log[0] == f"disk image '/var/lib/vz/dump/{second}' does not exist"


def test_removing_a_backup_needs_the_privilege_on_its_guest_also_for_administrators(api: Api) -> None:
    put(api, at(DAYS[0]))
    token = api.token_with(storage_local=("Datastore.Allocate", "Datastore.AllocateSpace"))
    volume = f"{CONTENT}/backup/{at(DAYS[0])}"
    assert api.reason("DELETE", volume, token) == "Permission check failed (/vms/100, VM.Backup)"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_volume_of_another_storage_is_rejected(api: Api, method: str) -> None:
    answer = api.ask(method, f"{CONTENT}/other:backup/{at(DAYS[0])}", ROOT)
    assert answer.json()["errors"] == {"volume": "storage ID mismatch (other != local)\n"}


def test_files_beside_backups_are_no_volumes(api: Api) -> None:
    put(api, at(DAYS[0]))
    log = f"backup/{at(DAYS[0]).split('.', 1)[0]}.log"
    assert api.reason("DELETE", f"{CONTENT}/{log}", ROOT) == f"unable to parse directory volume name '{log}'"
