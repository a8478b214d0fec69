"""Backup jobs and their schedules."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from pvebox.api.schema import FormatError
from pvebox.backups import calendar
from pvebox.cluster.assembly import memory_cluster
from sandbox.inprocess import Api, Json

ROOT = "root@pam!sandbox"
JOBS = "/cluster/backup"
# A Wednesday.
NOW = datetime(2026, 11, 18, 10, 30, 5)


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path / "state")


def root(api: Api, method: str, path: str, /, **params: Json) -> Json:
    answer = api.ask(method, path, ROOT, **params)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12:05", "2026-11-18 12:05:00"),
        ("02:00", "2026-11-19 02:00:00"),
        ("*/5", "2026-11-18 10:35:00"),
        ("0/15", "2026-11-18 10:45:00"),
        ("*", "2026-11-18 10:31:00"),
        ("mon..fri 8..17,22:0/15", "2026-11-18 10:45:00"),
        ("sat 15:00", "2026-11-21 15:00:00"),
        ("sun", "2026-11-22 00:00:00"),
        ("mon,wed 10:30:10", "2026-11-18 10:30:10"),
        ("12/2:5", "2026-11-18 12:05:00"),
        ("*-05", "2026-12-05 00:00:00"),
        ("Sat *-1..7 15:00", "2026-12-05 15:00:00"),
        ("2030-02-28", "2030-02-28 00:00:00"),
        ("02-29 1:00", "2028-02-29 01:00:00"),
        ("daily", "2026-11-19 00:00:00"),
        ("weekly", "2026-11-23 00:00:00"),
        ("monthly", "2026-12-01 00:00:00"),
    ],
)
def test_the_next_event_is_the_first_after_a_time(text: str, expected: str) -> None:
    found = calendar.parse(text).next_after(NOW.timestamp())
    assert found is not None
    assert str(datetime.fromtimestamp(found)) == expected


def test_an_event_in_the_past_never_comes_again() -> None:
    assert calendar.parse("2015-10-21").next_after(NOW.timestamp()) is None


@pytest.mark.parametrize(
    "text", ["", "nonsense", "25:00", "1:60", "x..y", "fri..mon", "1-2-3-4", "1:2:3:4", "0/0", "1 2 3"]
)
def test_a_wrong_event_is_rejected(text: str) -> None:
    with pytest.raises(FormatError, match="invalid calendar event"):
        calendar.parse(text)


def test_a_job_is_kept_with_its_next_run(api: Api) -> None:
    root(api, "POST", JOBS, id="nightly", vmid="100,101", storage="local", schedule="02:00", mode="stop", enabled=0)
    (job,) = root(api, "GET", JOBS)
    assert job.pop("next-run") > api.cluster.now()
    kept = {"type": "vzdump", "vmid": "100,101", "storage": "local", "schedule": "02:00", "mode": "stop", "enabled": 0}
    assert job == {"id": "nightly", **kept} == root(api, "GET", f"{JOBS}/nightly")
    assert memory_cluster(api.directory).jobs == {"nightly": kept}


def test_a_start_time_and_weekdays_become_a_schedule_and_a_job_gets_an_id(api: Api) -> None:
    root(api, "POST", JOBS, all=1, starttime="2:30", dow="sat,sun")
    root(api, "POST", JOBS, all=1, starttime="2:30")
    assert [job["schedule"] for job in root(api, "GET", JOBS)] == ["sat,sun 2:30", "2:30"]
    assert len({job["id"] for job in root(api, "GET", JOBS)}) == 2


@pytest.mark.parametrize(
    ("before", "change", "left"),
    [
        ({"all": 1, "exclude": "100"}, {"vmid": "101"}, {"vmid": "101"}),
        ({"vmid": "100"}, {"all": 1}, {"all": 1}),
        ({"vmid": "100"}, {"pool": "paddock"}, {"pool": "paddock"}),
        ({"vmid": "100"}, {"exclude": "101", "delete": "vmid"}, {"exclude": "101", "all": 1}),
    ],
)
def test_a_new_selection_of_containers_replaces_the_old_one(
    api: Api, before: dict[str, Json], change: dict[str, Json], left: dict[str, Json]
) -> None:
    root(api, "POST", JOBS, id="j1", schedule="daily", **before)
    root(api, "PUT", f"{JOBS}/j1", **change)
    job = root(api, "GET", f"{JOBS}/j1")
    assert {key: value for key, value in job.items() if key in ("all", "exclude", "pool", "vmid")} == left


@pytest.mark.parametrize(
    ("method", "path", "params", "errors"),
    [
        ("POST", JOBS, {"schedule": "daily"}, {"vmid": "property is missing"}),
        ("POST", JOBS, {"all": 1}, {"schedule": "neither 'starttime' nor 'schedule' were set"}),
        (
            "POST",
            JOBS,
            {"all": 1, "schedule": "daily", "starttime": "1:00"},
            {"starttime": "'starttime' and 'schedule' cannot both be set"},
        ),
        ("POST", JOBS, {"all": 1, "vmid": "100", "schedule": "daily"}, {"all": "option conflicts with option 'vmid'"}),
        ("POST", JOBS, {"all": 1, "schedule": "daily", "script": "/x"}, {"script": "Only root may set this option."}),
        ("GET", f"{JOBS}/no", {}, {"id": "No such job 'no'"}),
        ("PUT", f"{JOBS}/no", {"enabled": 0}, {"id": "No such job 'no'"}),
        ("DELETE", f"{JOBS}/no", {}, {"id": "No such job 'no'"}),
        ("PUT", f"{JOBS}/kept", {"delete": "color"}, {"delete": "unknown option 'color'"}),
        ("PUT", f"{JOBS}/kept", {"delete": "all"}, {"vmid": "property is missing"}),
    ],
)
def test_wrong_parameters_are_named(
    api: Api, method: str, path: str, params: dict[str, Json], errors: dict[str, str]
) -> None:
    root(api, "POST", JOBS, id="kept", all=1, schedule="daily")
    answer = api.ask(method, path, ROOT, **params)
    assert (answer.status_code, answer.json()["errors"]) == (400, errors)


def test_a_job_exists_once_and_can_be_deleted(api: Api) -> None:
    root(api, "POST", JOBS, id="j1", all=1, schedule="daily")
    assert api.reason("POST", JOBS, ROOT, id="j1", all=1, schedule="daily") == "Job 'j1' already exists"
    root(api, "DELETE", f"{JOBS}/j1")
    assert root(api, "GET", JOBS) == []


def test_a_job_for_a_pool_needs_an_existing_pool(api: Api) -> None:
    reason = api.reason("POST", JOBS, ROOT, pool="no", schedule="daily")
    assert reason == "Permission check failed (pool 'no' does not exist)"
