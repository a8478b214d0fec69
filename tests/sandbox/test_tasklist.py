"""The lists of tasks and the cluster's log."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from pvebox.api.errors import OperationError
from pvebox.cluster.tasks import Task
from sandbox.inprocess import Api

OWN = "paddock@pve!deploy"
TASKS = "/nodes/pve/tasks"


def _ok(task: Task) -> None:
    pass


def _warn(task: Task) -> None:
    task.warn("careful")


def _fail(task: Task) -> None:
    raise OperationError("it failed")


@pytest.fixture
def api(tmp_path: Path) -> Api:
    """A sandbox with ended tasks, and one task of another user."""
    api = Api(tmp_path / "state")
    happened = [
        ("vzstart", "500", OWN, _ok),
        ("vzstop", "500", OWN, _fail),
        ("vzclone", "500", OWN, _warn),
        ("move_volume", "500-mp0>543-mp0", OWN, _ok),
        ("vzstart", "5001", OWN, _ok),
        ("vzstart", "500", "other@pve!deploy", _ok),
    ]
    for type_, id_, user, work in happened:
        api.cluster.tasks.wait(api.cluster.tasks.start("pve", type_, id_, user, work))
    return api


def _types(api: Api, **params: Any) -> list[str]:
    return [entry["type"] for entry in api.data("GET", TASKS, **params)]


def test_a_token_sees_its_own_tasks_the_latest_first(api: Api) -> None:
    assert _types(api) == ["vzstart", "move_volume", "vzclone", "vzstop", "vzstart"]


def test_the_vmid_is_the_whole_id_of_a_task(api: Api) -> None:
    assert _types(api, vmid=500) == ["vzclone", "vzstop", "vzstart"]


@pytest.mark.parametrize(
    ("params", "types"),
    [
        ({"typefilter": "vzclone"}, ["vzclone"]),
        ({"typefilter": "vz"}, []),
        ({"statusfilter": "error,Warning"}, ["vzclone", "vzstop"]),
        ({"errors": 1}, ["vzclone", "vzstop"]),
        ({"errors": 1, "statusfilter": "ok"}, ["vzclone", "vzstop"]),
        ({"userfilter": "PADDOCK@"}, ["vzstart", "move_volume", "vzclone", "vzstop", "vzstart"]),
        ({"userfilter": "!deploy"}, []),
        ({"since": 4_000_000_000}, []),
        ({"until": 1}, []),
        ({"start": 1, "limit": 2}, ["move_volume", "vzclone"]),
        ({"limit": 0}, []),
        ({"source": "active"}, []),
    ],
)
def test_the_list_is_filtered(api: Api, params: dict[str, Any], types: list[str]) -> None:
    assert _types(api, **params) == types


def test_the_total_counts_all_matching_tasks(api: Api) -> None:
    answer = api.ask("GET", TASKS, limit=0, vmid=500).json()
    assert (answer["data"], answer["total"]) == ([], 3)


def test_an_unknown_status_is_refused(api: Api) -> None:
    errors = api.ask("GET", TASKS, statusfilter="ok,bad").json()["errors"]
    assert errors == {"statusfilter": "invalid format - invalid status 'bad'\n"}


def test_running_tasks_come_first_with_the_token_in_the_users_name(api: Api) -> None:
    go_on = threading.Event()

    def work(task: Task) -> None:
        go_on.wait(10)

    upid = api.cluster.tasks.start("pve", "vzstart", "500", OWN, work)
    first, second = api.data("GET", TASKS, source="all", limit=2)
    assert (first["user"], first["status"], first["saved"]) == (OWN, "RUNNING", "0")
    assert "endtime" not in first
    assert (second["user"], second["tokenid"]) == ("paddock@pve", "deploy")
    assert [entry["upid"] for entry in api.data("GET", TASKS, source="active", errors=1)] == [upid]
    assert upid not in [entry["upid"] for entry in api.data("GET", TASKS)]
    go_on.set()
    api.settle()


def test_an_unknown_task_is_reported_before_its_owner_is_checked(api: Api) -> None:
    upid = "UPID:pve:00000001:00000001:6AF9B0DE:vzstart:500:other@pve!deploy:"
    for method, path in (("GET", f"{TASKS}/{upid}/status"), ("DELETE", f"{TASKS}/{upid}")):
        assert api.ask(method, path).json()["errors"] == {"upid": "no such task"}


def test_the_cluster_lists_tasks_only_for_an_auditor(api: Api) -> None:
    assert api.data("GET", "/cluster/tasks") == []
    shown = api.ask("GET", "/cluster/tasks", "root@pam!sandbox").json()["data"]
    assert len(shown) == 6
    assert (shown[0]["user"], shown[0]["tokenid"], shown[0]["status"]) == ("other@pve", "deploy", "OK")


def test_the_log_has_a_tokens_own_lines_the_latest_first(api: Api) -> None:
    api.create(500)
    task = api.task("POST", "/nodes/pve/lxc/500/snapshot", snapname="one")
    end, action, begin = api.data("GET", "/cluster/log", max=3)
    assert (end["msg"], end["pri"]) == (f"end task {task.upid} OK", 6)
    assert (action["msg"], action["pid"]) == ("snapshot container 500: one", task.upid.pid)
    assert begin["msg"] == f"starting task {task.upid}"
    assert begin["id"] == f"{begin['uid']}:pve"
    lines = api.data("GET", "/cluster/log")
    assert {line["user"] for line in lines} == {OWN}
    assert [line["pri"] for line in lines if line["msg"].endswith(" it failed")] == [3]


def test_the_log_has_fifty_lines_by_default(api: Api) -> None:
    for _ in range(30):
        api.cluster.tasks.wait(api.cluster.tasks.start("pve", "vzstart", "500", OWN, _ok))
    assert len(api.data("GET", "/cluster/log")) == 50
    assert api.ask("GET", "/cluster/log", max=0).status_code == 400
